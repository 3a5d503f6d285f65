"""The turn job: decides what a finished turn makes due. See docs/explanation/turn.md."""
