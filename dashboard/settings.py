"""Django settings. Every value that differs between sites comes from the environment."""

from __future__ import annotations

from pathlib import Path

import plotly
from csp.constants import NONCE, NONE, SELF
from xstatic.pkg import bootstrap

from dashboard import environment

BASE_DIR = Path(__file__).resolve().parent.parent

# `make demo` leaves its settings here, so that manage.py finds the running demo by itself.
environment.read_file(BASE_DIR / "var" / "environment")

SECRET_KEY = environment.read_text("SECRET_KEY")
# Keys of their own for credentials, first one encrypts; `manage.py rotate_credentials` moves on.
CREDENTIAL_KEYS = environment.read_names("CREDENTIAL_KEYS")
DEBUG = environment.read_flag("DEBUG", False)
ALLOWED_HOSTS = environment.read_names("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = environment.read_names("CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "axes",
    "csp",
    "django_htmx",
    "django_rq",
    "template_partials",
    "experiments",
    "dashboard",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "dashboard.middleware.answer_head",
    "dashboard.middleware.forbid_storing",
    # With random bytes in each answer, so that its length tells nothing of a secret in it (BREACH).
    "django.middleware.gzip.GZipMiddleware",
    "dashboard.api.page_errors.send_errors_to_programs",
    "csp.middleware.CSPMiddleware",
    "dashboard.middleware.refuse_charsets",
    "dashboard.middleware.refuse_nul",
    "dashboard.middleware.widen_policy_for_queues",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "dashboard.uploads.RefuseHugeRequests",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "dashboard.access.sessions.end_old_sessions",
    "dashboard.access.visitors.recognise_visitors",
    # Around `hide_names`, so that its digest is of the text as it is sent: with a digest of hidden
    # names a reader could test a guess.
    "dashboard.middleware.leave_unchanged",
    "dashboard.access.hidden_names.hide_names",
    "dashboard.access.sessions.lead_to_log_in",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.deleted_rows.AnswerDeleted",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "dashboard.urls"
WSGI_APPLICATION = "dashboard.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

FORM_RENDERER = "dashboard.form_styles.Renderer"

DATABASES = {"default": environment.parse_postgres_url(environment.read_text("DATABASE_URL"))}

REDIS_URL = environment.read_text("REDIS_URL", "redis://localhost:6379/0")
RQ_QUEUES = {
    name: {
        "URL": REDIS_URL,
        "DEFAULT_TIMEOUT": seconds,
        "SERIALIZER": "rq.serializers.JSONSerializer",
    }
    # Images are sent and fetched in `bulk`, by a worker of its own: ticks do not wait for them.
    for name, seconds in (("default", 600), ("bulk", 24 * 3600))
}

# A file by whose time a health check sees that a worker or the clock works; "": none.
ALIVE_PATH = environment.read_text("ALIVE_PATH", "")

RQ = {"JOB_CLASS": "experiments.execution.task_worker.TaskJob"}

# The images' own bytes; the web server takes uploads, the bulk worker sends and fetches.
IMAGE_STORE = environment.read_text("IMAGE_STORE", str(BASE_DIR / "var" / "images"))
# Registries, by host, that people may have the server ask; empty: any.
IMAGE_REGISTRIES = environment.read_names("IMAGE_REGISTRIES")
# Hosts that the server may ask for images although they are inside the site's own network: `host`
# or `host:port` with TLS, `http://host:port` without.
IMAGE_INSIDE_HOSTS = environment.read_hosts("IMAGE_INSIDE_HOSTS")
IMAGE_UPLOAD_BYTES = int(environment.read_text("IMAGE_UPLOAD_GB", "32")) * 10**9

# Figures that were drawn, and the fonts that they are drawn with: all of it is made anew if it is
# missing. Files, not Valkey: who can write there could have the web server read what is no figure.
FIGURE_FOLDER = environment.read_text("FIGURE_FOLDER", str(BASE_DIR / "var" / "figures"))
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "figures": {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": str(Path(FIGURE_FOLDER) / "drawn"),
        "TIMEOUT": 30 * 24 * 3600,
        "OPTIONS": {"MAX_ENTRIES": 2000},  # for each figure the file, and which request asks for it
    },
    # Requests of the API, counted for all web processes together; a request waits no longer for it.
    "limits": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "limits",
        "OPTIONS": {"socket_timeout": 0.25},
    },
}

# Where the supervisor of `make demo` writes which services ended; empty: there is none.
SUPERVISOR_FILE = environment.read_text("SUPERVISOR_FILE", "")

AUTH_USER_MODEL = "experiments.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "dashboard.access.logged_in.Backend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"
# Proxies whose word on where a request comes from counts: addresses and networks. Behind one that
# is not listed everybody has its address, and ten wrong passwords of one close the name to all.
TRUSTED_PROXIES = environment.read_networks("TRUSTED_PROXIES")
AXES_CLIENT_IP_CALLABLE = "dashboard.access.log_in.find_client_address"
AXES_RESET_ON_SUCCESS = True
AXES_FAILURE_LIMIT = 10
AXES_LOCKOUT_TEMPLATE = "access/locked.html"
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]

# Somebody is logged out after as long without doing anything, and after so many days in any case.
SESSION_ENGINE = "dashboard.access.logged_in"
SESSION_IDLE_SECONDS = environment.read_number("SESSION_IDLE_HOURS", 12) * 3600
SESSION_COOKIE_AGE = environment.read_number("SESSION_DAYS", 7) * 24 * 3600

# The site's own address, for links in what leaves it: https://tare.example.org
SITE_ADDRESS = environment.read_text("SITE_ADDRESS", "") or next(iter(CSRF_TRUSTED_ORIGINS), "")
SITE_ADDRESS = SITE_ADDRESS.rstrip("/")
# The mail server by which people may be told; without one no page offers it.
EMAIL_HOST = environment.read_text("EMAIL_HOST", "")
EMAIL_PORT = environment.read_number("EMAIL_PORT", 25)
EMAIL_HOST_USER = environment.read_text("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = environment.read_text("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = environment.read_flag("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = environment.read_flag("EMAIL_USE_SSL", False)
EMAIL_TIMEOUT = environment.read_number("EMAIL_TIMEOUT", 20)
DEFAULT_FROM_EMAIL = environment.read_text("DEFAULT_FROM_EMAIL", "")
# Whether people may have notifications posted to addresses on the web, and to which.
WEBHOOKS = environment.read_flag("WEBHOOKS", True)
WEBHOOKS_WITHOUT_TLS = environment.read_flag("WEBHOOKS_WITHOUT_TLS", False)
# Networks of the site's own to which may be posted, too: 10.1.2.0/24. Otherwise none.
WEBHOOK_INSIDE_NETWORKS = environment.read_networks("WEBHOOK_INSIDE_NETWORKS")
# The API of the service at which bundles are deposited: Zenodo's, or that of its sandbox
# (https://sandbox.zenodo.org/api). Empty: no page offers it.
DEPOSIT_ADDRESS = environment.read_text("DEPOSIT_ADDRESS", "https://zenodo.org/api").rstrip("/")
# What makes a bundle with its figures, for the worker that deposits it.
BUNDLE_MAKER = "dashboard.comparisons.bundle_files.make_named_bundle"
# Administrators are told of a cluster that was not reachable, or was paused, for as long.
CLUSTER_ALERT_MINUTES = environment.read_number("CLUSTER_ALERT_MINUTES", 15)

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

# The first one lets no more of a file through than the import reads.
FILE_UPLOAD_HANDLERS = [
    "dashboard.uploads.Quota",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [
    BASE_DIR / "static",
    ("bootstrap", bootstrap.BASE_DIR),
    ("plotly", Path(plotly.__file__).parent / "package_data"),
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = DEBUG

# plotly.js sets inline styles; `widen_policy_for_queues` widens this for django-rq.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, NONCE],
        "style-src-elem": [
            SELF,
            "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
        ],
        "style-src-attr": ["'unsafe-inline'"],
        "img-src": [SELF, "data:", "blob:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "form-action": [SELF],
    },
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
HTTPS = environment.read_flag("HTTPS", False)
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {
        # Every failure that matters comes to us as an exception, with words of our own.
        "paramiko": {"level": "CRITICAL"},
        "rq": {"level": "WARNING"},
        "axes": {"level": "WARNING"},
    },
}
