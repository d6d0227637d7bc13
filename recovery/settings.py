"""All settings. Everything has a default that runs on a bare checkout; the environment overrides (recovery/env.py).

Production sets RECOVERY_DEBUG=false, RECOVERY_SECRET_KEY, RECOVERY_ALLOWED_HOSTS, DATABASE_URL and REDIS_URL;
`manage.py check --deploy` says what is missing.
"""

from __future__ import annotations

from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from recovery.core import lifecycle, opinion, types, words
from recovery.env import (
    OidcSettings,
    broker,
    database,
    env_bool,
    env_float,
    env_list,
    env_rate,
    env_str,
    env_zone,
    group_roles,
    mail_server,
    oidc,
    provider,
)

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env_str("RECOVERY_DATA_DIR", str(BASE_DIR / "var"))).absolute()
DATA_DIR.mkdir(parents=True, exist_ok=True)
DEBUG = env_bool("RECOVERY_DEBUG", True)

# --- the engine ------------------------------------------------------------------------------------------------------
TICK_S = env_float("RECOVERY_TICK_S", 5, least=0.2)  # beat wakes the workers this often; the database says what is due
# How long a worker may hold a case or a cluster. Longer than any chain of scheduler calls (each times out on its own).
LEASE_S = env_float("RECOVERY_LEASE_S", 90, least=1)
SLURM_TIMEOUT_S = env_float("RECOVERY_SLURM_TIMEOUT_S", 10, least=0.5)
# A picture older than this is stale: shown so, and nothing acts on it.
STALE_AFTER_S = env_float("RECOVERY_STALE_AFTER_S", 60, least=1)
# Only files below these folders are ever read for a job; the default allows none outside the product's own data.
LOG_ROOTS = env_list("RECOVERY_LOG_ROOTS", [str(DATA_DIR)])
CHECKPOINT_ROOTS = env_list("RECOVERY_CHECKPOINT_ROOTS", LOG_ROOTS)
# Trainers print local time without a zone: the IANA name of the cluster's, such as Europe/Paris.
LOG_TIME_ZONE = env_zone("RECOVERY_LOG_TIME_ZONE", "UTC")
# A site's own failure signatures (docs/diagnose.md), put before those that come with the product.
SIGNATURES = env_str("RECOVERY_SIGNATURES")
# An external diagnostic service, whose answers are shown beside our verdicts (docs/providers.md); None: built-in rules.
PROVIDER = provider(
    opinion.ProviderSettings(
        kind=env_str("RECOVERY_PROVIDER"),
        url=env_str("RECOVERY_PROVIDER_URL"),
        timeout_s=env_float("RECOVERY_PROVIDER_TIMEOUT_S", 30, least=1),
        per_hour=int(env_float("RECOVERY_PROVIDER_PER_HOUR", 20, least=1)),
        token_file=env_str("RECOVERY_PROVIDER_TOKEN_PATH"),  # the path: it is read for each question
        ca_file=env_str("RECOVERY_PROVIDER_CA_PATH"),
    ),
    hosts=env_list("RECOVERY_PROVIDER_HOSTS", []),
    lease_s=LEASE_S,
)
# Floors of the hang detector (recovery/core/detectors/hang.py explains them).
HANG_FLOOR_S = env_float("RECOVERY_HANG_FLOOR_S", 2700, least=1)
HANG_WITNESSED_S = env_float("RECOVERY_HANG_WITNESSED_S", 1200, least=1)
HANG_FIRST_STEP_S = env_float("RECOVERY_HANG_FIRST_STEP_S", 3600, least=1)
HANG_SAVING_S = env_float("RECOVERY_HANG_SAVING_S", 1800, least=1)
# How long a crash is left to settle: accounting, node states and the last log lines arrive after the job's end.
SETTLE_S = env_float("RECOVERY_SETTLE_S", 20, least=0)

# Days that tables keep rows (docs/storage.md says which, and which are kept for ever). Charts of what is older than
# samples are drawn from minutes, then from ten minutes.
KEEP_SAMPLES_DAYS = env_float("RECOVERY_KEEP_SAMPLES_DAYS", 30, least=2)
KEEP_MINUTES_DAYS = env_float("RECOVERY_KEEP_MINUTES_DAYS", 180, least=2)
KEEP_TEN_MINUTES_DAYS = env_float("RECOVERY_KEEP_TEN_MINUTES_DAYS", 1100, least=2)
KEEP_FAILURE_LINES_DAYS = env_float("RECOVERY_KEEP_FAILURE_LINES_DAYS", 180, least=2)

# --- Django ----------------------------------------------------------------------------------------------------------
DEV_KEY = "not-a-secret-only-for-a-checkout-on-one-machine"
SECRET_KEY = env_str("RECOVERY_SECRET_KEY", DEV_KEY if DEBUG else "")
if not SECRET_KEY:
    raise ImproperlyConfigured(
        "RECOVERY_SECRET_KEY is not set: give 50 random characters (or RECOVERY_SECRET_KEY_FILE)."
    )
ALLOWED_HOSTS = env_list("RECOVERY_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"] if DEBUG else [])
CSRF_TRUSTED_ORIGINS = env_list("RECOVERY_TRUSTED_ORIGINS", [])

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "django_filters",
    "recovery.apps.RecoveryConfig",
    "dashboard.apps.DashboardConfig",
]
MIDDLEWARE = [
    "recovery.middleware.OriginMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "dashboard.middleware.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "recovery.urls"
ASGI_APPLICATION = "recovery.asgi.application"
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
                "dashboard.context.shell",
            ],
        },
    }
]
DATABASES = {"default": database(env_str("DATABASE_URL"), sqlite_path=DATA_DIR / "recovery.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator")
]
# Log-in at the site's own provider or directory (docs/access.md); None: local passwords alone.
OIDC = oidc(
    OidcSettings(
        issuer=env_str("RECOVERY_OIDC_ISSUER"),
        client_id=env_str("RECOVERY_OIDC_CLIENT_ID"),
        secret_file=env_str("RECOVERY_OIDC_SECRET_PATH"),
        scopes=env_str("RECOVERY_OIDC_SCOPES", "openid profile"),
        name_claim=env_str("RECOVERY_OIDC_NAME_CLAIM", "preferred_username"),
        groups_claim=env_str("RECOVERY_OIDC_GROUPS_CLAIM", "groups"),
        slurm_user_claim=env_str("RECOVERY_OIDC_SLURM_USER_CLAIM"),
        ca_file=env_str("RECOVERY_OIDC_CA_PATH"),
    )
)
GROUP_ROLES = group_roles(env_str("RECOVERY_GROUP_ROLES"))
# Tokens need no log-in, and groups are told at one alone: so long after the last, what groups gave counts for tokens.
GROUP_ROLES_S = env_float("RECOVERY_GROUP_ROLES_S", 2_592_000, least=3600)
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    *env_list("RECOVERY_AUTH_BACKENDS", []),
    *(["recovery.oidc.Backend"] if OIDC else []),
]
CSRF_FAILURE_VIEW = "dashboard.errors.csrf_failed"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en-us"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "dashboard.finders.PlotlyFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
# A checkout serves static files from where they lie; also under test, where the framework switches DEBUG off.
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = DEBUG

# A site that serves plain http inside its own network says so; everything else is only sent over TLS.
HTTPS = env_bool("RECOVERY_HTTPS", not DEBUG)
SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env_bool("RECOVERY_BEHIND_PROXY", False) else None
SESSION_ENGINE = "recovery.sessions"
SESSION_COOKIE_AGE = int(env_float("RECOVERY_SESSION_S", 43_200, least=60))  # one shift, however busy
SESSION_IDLE_S = env_float("RECOVERY_SESSION_IDLE_S", 7200, least=60)
# Policies, roles, tokens, and automation armed again: after so long the password is asked for once more.
ASK_AGAIN_S = env_float("RECOVERY_ASK_AGAIN_S", 1800, least=0)
LOCK_AFTER = env_float(
    "RECOVERY_LOCK_AFTER", 5, least=1
)  # failed tries with one name; from one address four times so many
LOCK_S = env_float("RECOVERY_LOCK_S", 60, least=1)  # the first time; each further failure doubles it, up to an hour
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"

# --- REST ------------------------------------------------------------------------------------------------------------
# Enums that several answers of the API share keep their own name in its OpenAPI document.
WORDS = (
    lifecycle.ActionState, lifecycle.IncidentState, types.ActionKind, types.CheckpointState, types.DecisionKind,
    types.Exclude, types.FailureClass, types.FindingKind, types.JobState, types.Mode, types.Outcome, types.Phase,
    types.Restart, types.Role, opinion.ProviderMode,
)  # fmt: skip
# Requests for each token, account or address (recovery/api/throttling.py); "" or "none": no ceiling.
API_RATE = env_rate("RECOVERY_API_RATE", "1200/min")
PUSH_RATE = env_rate("RECOVERY_PUSH_RATE", "6000/min")  # for each push token: a cluster's is shared by its jobs
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "recovery.api.authentication.TokenAuthentication",
        "recovery.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["recovery.api.permissions.HasPermission"],
    "DEFAULT_THROTTLE_CLASSES": ["recovery.api.throttling.ActorThrottle"],
    "DEFAULT_SCHEMA_CLASS": "recovery.api.schema.DeskSchema",
    "DEFAULT_PAGINATION_CLASS": "recovery.api.parsing.BoundedPages",
    "DEFAULT_FILTER_BACKENDS": ["recovery.api.parsing.StrictFilters"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["recovery.api.parsing.SmallJSONParser"],
    "EXCEPTION_HANDLER": "recovery.api.errors.exception_handler",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Recovery Desk",
    "DESCRIPTION": "Recovers AI training jobs on Slurm, and stays on each case until the next checkpoint is complete.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_PERMISSIONS": ["recovery.api.permissions.HasPermission"],
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1/",
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        **{enum.__name__: [word.value for word in enum] for enum in WORDS},
        "Examined": list(words.EXAMINED_WORDS),
    },
}

# --- Telling people (docs/notifications.md) ---------------------------------------------------------------------------
ADDRESS = env_str("RECOVERY_ADDRESS", "http://localhost:8000" if DEBUG else "")  # of this desk, for links in messages
WEBHOOK_CA_FILE = env_str("RECOVERY_WEBHOOK_CA_PATH")
DEFAULT_FROM_EMAIL = env_str("RECOVERY_MAIL_FROM", "recovery-desk@localhost")
EMAIL_HOST, EMAIL_PORT, EMAIL_HOST_USER, EMAIL_HOST_PASSWORD, EMAIL_USE_TLS, EMAIL_USE_SSL = mail_server(
    env_str("RECOVERY_MAIL_URL", "smtp://localhost:25")
)

# --- Celery ----------------------------------------------------------------------------------------------------------
CELERY_BROKER_URL, CELERY_BROKER_TRANSPORT_OPTIONS = broker(env_str("REDIS_URL", "redis://127.0.0.1:6379/0"))
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_TIMEOUT = 2  # a press of a button does not wait longer for a broker that is away
CELERY_TASK_IGNORE_RESULT = True  # results live in our tables
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_TIME_LIMIT = LEASE_S  # a task never outlives the lease it works under
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TIMEZONE = "UTC"
# A wake-up that waited for more than a few ticks is worthless: the next tick finds whatever is still due. It is dated
# by its sender's clock and judged by the worker's: on hosts whose clocks are further apart none would be in time.
CLOCKS_APART_S = 90
WAKE_EXPIRES_S = 3 * TICK_S + CLOCKS_APART_S
CELERY_BEAT_SCHEDULE = {"tick": {"task": "recovery.tick", "schedule": TICK_S, "options": {"expires": WAKE_EXPIRES_S}}}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env_str("RECOVERY_LOG_LEVEL", "INFO")},
    "loggers": {"httpx": {"level": "WARNING"}},  # else a line per request: several at each poll of a slurmrestd
}
