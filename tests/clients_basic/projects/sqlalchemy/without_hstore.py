"""A plugin of pytest: the set-up of SQLAlchemy's tests makes no extension hstore."""


def pytest_configure() -> None:
    """Takes it from the list of them."""
    from sqlalchemy.dialects.postgresql import provision

    provision._extensions[:] = [extension for extension in provision._extensions if extension[0] != "hstore"]
