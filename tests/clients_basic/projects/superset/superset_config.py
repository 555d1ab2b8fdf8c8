import os

SECRET_KEY = "only for tests, and long enough for it"
SQLALCHEMY_DATABASE_URI = os.environ["METADATA_URL"]
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
PREVENT_UNSAFE_DB_CONNECTIONS = False
