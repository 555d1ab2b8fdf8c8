"""A plugin of pytest: the set-up of SQLAlchemy's tests makes no extensions."""


def pytest_configure() -> None:
    """Empties the list of them."""
    from sqlalchemy.dialects.postgresql import provision

    provision._extensions.clear()
