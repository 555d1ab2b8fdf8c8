"""Settings of Django's own tests: two databases of the server that the environment names."""

import os

DATABASES = {
    name: {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["TESTS_HOST"],
        "PORT": os.environ["TESTS_PORT"],
        "USER": "postgres",
        "NAME": os.environ["TESTS_DATABASE"],
        "TEST": {"NAME": f"test_{name}"},
    }
    for name in ("default", "other")
}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
SECRET_KEY = "only for tests"
USE_TZ = False
