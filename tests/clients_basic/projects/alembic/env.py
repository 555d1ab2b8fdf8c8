"""The environment of the session's migrations; the models are those of `session.py`."""

import sqlalchemy as sa
from alembic import context

config = context.config
options = {
    "target_metadata": config.attributes["metadata"],
    "include_schemas": True,
    "compare_server_default": True,
    "transaction_per_migration": config.attributes["each"],
    "version_table_schema": "kept",
}
if context.is_offline_mode():
    context.configure(url=config.get_main_option("sqlalchemy.url"), literal_binds=True, **options)
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = sa.create_engine(config.get_main_option("sqlalchemy.url"), poolclass=sa.NullPool)
    with engine.connect() as connection:
        context.configure(connection=connection, **options)
        with context.begin_transaction():
            context.run_migrations()
