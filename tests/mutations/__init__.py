"""Whether the suite notices a broken product: `make mutants`, see `tests.mutations.__main__`."""
