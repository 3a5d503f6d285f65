"""The pages of `docs/reference` that are written from the code: `make reference`."""
