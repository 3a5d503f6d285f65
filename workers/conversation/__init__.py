"""Rules about the messages of a conversation, without a database and without a model."""
