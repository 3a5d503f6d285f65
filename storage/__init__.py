"""The shared database: engine, typed tables, migrations, and one module per thing stored."""
