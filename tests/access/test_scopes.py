"""What a role for a scope reaches: in one question, and in every query."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Model
from pytest_django import DjangoAssertNumQueries

from recovery.access import EVERYTHING, Forbidden, Grant, Permission, Place, actor_for, require
from recovery.models import Action, Attempt, Checkpoint, Cluster, Event, Incident, Job, Membership, Recommendation, Run
from recovery.models.access import Role, Scope
from recovery.selectors import NotFound
from recovery.selectors.scope import reach, runs_of, visible_to
from tests.access.people import Site, make_person, make_site
from tests.factories import make_event, make_user

SCOPES = [
    (Scope.ALL, "", None, {"plain", "debug", "nlp", "jonas", "beta"}),
    (Scope.CLUSTER, "", "alpha", {"plain", "debug", "nlp", "jonas"}),
    (Scope.PARTITION, "debug", None, {"debug", "beta"}),
    (Scope.PARTITION, "debug", "alpha", {"debug"}),
    (Scope.PARTITION, "debu", None, set()),
    (Scope.PARTITION, "long", None, {"debug"}),
    (Scope.ACCOUNT, "nlp", None, {"nlp", "beta"}),
    (Scope.ACCOUNT, "nlp", "beta", {"beta"}),
    (Scope.USER, "jonas", "alpha", {"jonas"}),
]
MODELS: dict[type[Model], str] = {
    Incident: "incident", Recommendation: "recommendation", Job: "job",
}  # fmt: skip


@pytest.fixture
def site(db: None) -> Site:
    return make_site()


@pytest.mark.parametrize(("scope", "name", "cluster", "within"), SCOPES)
def test_a_query_and_a_question_give_the_same_answer(
    scope: Scope, name: str, cluster: str | None, within: set[str], site: Site
) -> None:
    role = Role.OWNER if scope is Scope.USER else Role.VIEWER
    actor = actor_for(make_person(role, scope, name, Cluster.objects.filter(name=cluster).first()))
    seen = set(visible_to(Incident.objects.all(), actor))
    assert {key for key, case in site.cases.items() if case.incident in seen} == within
    for key, case in site.cases.items():
        attempt = case.incident.attempt
        expected = key in within
        for subject in (case.incident, case.recommendation, case.job, attempt, case.incident.run):
            assert actor.can(Permission.VIEW, subject) is expected, (key, subject)
            rows = visible_to(type(subject)._default_manager.filter(pk=subject.pk), actor)
            assert rows.exists() is expected, (key, subject)
    assert actor.can(Permission.VIEW, EVERYTHING) is (scope is Scope.ALL)
    runs = runs_of(actor)
    assert (runs is None) is (scope is Scope.ALL)


def test_several_roles_add_up_and_each_holds_where_it_was_given(site: Site) -> None:
    user = make_person(Role.VIEWER, Scope.CLUSTER, cluster=site.alpha)
    Membership.objects.create(user=user, role=Role.APPROVER, scope=Scope.ACCOUNT, name="nlp")
    actor = actor_for(user)
    may = {key for key, case in site.cases.items() if actor.can(Permission.DECIDE, case.incident)}
    assert may == {"nlp", "beta"}
    assert visible_to(Incident.objects.all(), actor).count() == 5
    with pytest.raises(Forbidden, match="here: the role is viewer for cluster alpha, approver for Slurm account nlp"):
        require(actor, Permission.DECIDE, site.cases["plain"].incident)


def test_a_cluster_is_seen_by_whoever_may_see_anything_on_it_and_run_by_who_has_a_role_for_it(site: Site) -> None:
    actor = actor_for(make_person(Role.OPERATOR, Scope.PARTITION, "debug", site.alpha))
    assert actor.can(Permission.VIEW, site.alpha)
    assert not actor.can(Permission.VIEW, site.beta)
    assert list(visible_to(Cluster.objects.all(), actor)) == [site.alpha]
    assert not actor.can(Permission.OPERATE, site.alpha)
    assert actor.can(Permission.OPERATE, site.cases["debug"].incident)


@pytest.mark.parametrize("model", [Incident, Recommendation, Run, Job, Attempt, Action, Checkpoint, Event, Cluster])
def test_whoever_has_no_role_sees_no_row_of_anything(model: type[Model], site: Site) -> None:
    make_event(incident=site.cases["plain"].incident)
    outsider = actor_for(make_user(role=None))
    assert not visible_to(model._default_manager.all(), outsider).exists()


def test_lists_cost_no_query_more(site: Site, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    actor = actor_for(make_person(Role.VIEWER, Scope.PARTITION, "debug"))
    for model in (Incident, Run, Job, Attempt, Event, Checkpoint):
        with django_assert_num_queries(1):
            list(visible_to(model._default_manager.all(), actor))


def test_a_table_of_which_nothing_is_said_is_refused(site: Site) -> None:
    actor = actor_for(make_person(Role.VIEWER, Scope.PARTITION, "debug"))
    with pytest.raises(TypeError, match="Membership"):
        visible_to(Membership.objects.all(), actor)


def test_what_may_not_be_seen_is_as_if_it_were_not_there(site: Site) -> None:
    actor = actor_for(make_person(Role.APPROVER, Scope.ACCOUNT, "nlp"))
    hidden = site.cases["plain"].incident.pk
    with pytest.raises(NotFound) as there:
        reach(Incident, hidden, actor)
    with pytest.raises(NotFound) as missing:
        reach(Incident, 10**6, actor)
    assert str(there.value).replace(str(hidden), "N") == str(missing.value).replace(str(10**6), "N")


@pytest.mark.parametrize("kind", ["account", "token", "push_token", "audit"])
def test_events_about_people_are_for_who_may_see_the_whole_trail(kind: str, db: None) -> None:
    make_event(subject_kind=kind)
    make_event(subject_kind="policy")
    told = {
        role: actor_for(make_user(role=role)) for role in (Role.VIEWER, Role.APPROVER, Role.POLICY_ADMIN, Role.ADMIN)
    }
    seen = {role: visible_to(Event.objects.all(), actor).count() for role, actor in told.items()}
    assert seen == {Role.VIEWER: 1, Role.APPROVER: 1, Role.POLICY_ADMIN: 2, Role.ADMIN: 2}


def test_within_a_scope_only_events_of_its_incidents_are_seen(site: Site) -> None:
    own = make_event(incident=site.cases["nlp"].incident)
    make_event(incident=site.cases["plain"].incident)
    make_event(subject_kind="policy")
    actor = actor_for(make_person(Role.ADMIN, Scope.ACCOUNT, "nlp", site.alpha))
    assert list(visible_to(Event.objects.all(), actor)) == [own]


# --- training users --------------------------------------------------------------------------------------------------


def test_a_training_user_decides_on_own_runs_only_where_the_policy_says_so(site: Site) -> None:
    actor = actor_for(make_person(Role.OWNER, Scope.USER, "jonas"))
    own, other = site.cases["jonas"], site.cases["plain"]
    assert not actor.can(Permission.DECIDE, own.recommendation)
    Recommendation.objects.update(approval={"owner": True})
    for case in (own, other):
        case.recommendation.refresh_from_db()
    assert actor.can(Permission.DECIDE, own.recommendation)
    assert actor.can(Permission.DECIDE, own.incident)
    assert not actor.can(Permission.DECIDE, other.recommendation)
    assert not actor.can(Permission.OPERATE, own.incident)


def test_an_account_of_a_slurm_users_name_is_nobody_until_it_is_given_that_name(site: Site) -> None:
    actor = actor_for(make_user(role=None, username="jonas"))
    assert not visible_to(Run.objects.all(), actor).exists()


# --- what can be stored ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [{"scope": "cluster"}, {"scope": "partition"}, {"scope": "all", "name": "x"}, {"scope": "user"}],
)
def test_a_scope_names_what_it_is_of(fields: dict[str, str], db: None) -> None:
    user = make_user(role=None)
    with pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(user=user, role=Role.VIEWER, **fields)


@pytest.mark.parametrize("scope", ["planet", ""])
def test_a_scope_that_is_unknown_reaches_nothing(scope: str) -> None:
    grant = Grant(Role.ADMIN, scope, None, "")
    assert not grant.covers(Place(1, frozenset({""}), frozenset({""}), ""))


@pytest.mark.parametrize("scope", [Scope.PARTITION, Scope.ACCOUNT, Scope.USER])
def test_an_empty_name_reaches_nothing(scope: Scope) -> None:
    """A job without an account is not everybody's."""
    grant = Grant(Role.ADMIN, scope, None, "")
    assert not grant.covers(Place(1, frozenset({""}), frozenset({""}), ""))


def test_a_role_on_every_cluster_sees_every_cluster_as_the_question_says(site: Site) -> None:
    actor = actor_for(make_person(Role.VIEWER, Scope.ACCOUNT, "nlp"))
    seen = set(visible_to(Cluster.objects.all(), actor).values_list("name", flat=True))
    assert seen == {cluster.name for cluster in Cluster.objects.all() if actor.can(Permission.VIEW, cluster)}
    assert seen == {"alpha", "beta"}
    more = make_person(Role.VIEWER, Scope.CLUSTER, cluster=site.alpha)
    assert set(visible_to(Cluster.objects.all(), actor_for(more)).values_list("name", flat=True)) == {"alpha"}
