from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from recovery.models.cluster import Cluster


class Role(models.TextChoices):
    VIEWER = "viewer", "Viewer"
    OPERATOR = "operator", "Operator"
    APPROVER = "approver", "Approver"
    POLICY_ADMIN = "policy_admin", "Policy administrator"
    ADMIN = "admin", "Administrator"
    OWNER = "owner", "Training user"


class Scope(models.TextChoices):
    """For what a role is given. All but the first two reach over every cluster where none is named."""

    ALL = "all", "everything"
    CLUSTER = "cluster", "cluster"
    PARTITION = "partition", "partition"
    ACCOUNT = "account", "Slurm account"
    USER = "user", "Slurm user"


class Membership(models.Model):
    """One role of an account, for one scope. An account without any may see nothing."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role.choices)
    scope = models.CharField(max_length=20, choices=Scope.choices, default=Scope.ALL)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, null=True, blank=True, related_name="memberships")
    name = models.CharField(max_length=100, blank=True, default="")  # of the partition, account or Slurm user
    # By the groups that the site's own log-in told; then it is taken as they are told no more. Else by a person.
    by_group = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "role", "scope", "name"], condition=Q(cluster=None), name="one_role_per_scope"
            ),
            models.UniqueConstraint(
                fields=["user", "role", "scope", "name", "cluster"], name="one_role_per_scope_of_a_cluster"
            ),
            models.CheckConstraint(
                condition=Q(scope=Scope.ALL, cluster=None, name="")
                | Q(scope=Scope.CLUSTER, cluster__isnull=False, name="")
                | (Q(scope__in=[Scope.PARTITION, Scope.ACCOUNT, Scope.USER]) & ~Q(name="")),
                name="a_scope_names_what_it_is_of",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} as {self.role} for {self.where}"

    @property
    def where(self) -> str:
        """Its scope in words: "everything", "partition gpu on alpha"."""
        if self.scope == Scope.ALL:
            return "everything"
        if self.scope == Scope.CLUSTER:
            return f"cluster {self.cluster}"
        return f"{self.get_scope_display()} {self.name}" + (f" on {self.cluster}" if self.cluster_id else "")


class Identity(models.Model):
    """Whom an account belongs to at the site's own provider of log-ins: the one name there that never changes."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identity")
    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="one_account_per_identity")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class LogInTries(models.Model):
    """Tries to log in that failed in a row, with one name or from one address; also names that are no account's."""

    key = models.CharField(max_length=64, primary_key=True)  # keyed digest: people type their password as their name
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+")
    failures = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField()
    locked_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.failures} until {self.locked_until}"


class ApiToken(models.Model):
    """A token for the REST API: stored hashed, with a visible prefix; it never gives more than its owner's role."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, unique=True)
    digest = models.CharField(max_length=64)  # SHA-256 of the secret part
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
