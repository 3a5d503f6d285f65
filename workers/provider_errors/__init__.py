"""Errors of model providers: what they report, recognised by status, code and wording."""
