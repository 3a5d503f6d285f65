"""How commands write: tables and JSON from one list of fields, words, numbers, progress."""
