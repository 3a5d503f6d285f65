"""The Celery application: queues, settings, and the tasks that run jobs."""
