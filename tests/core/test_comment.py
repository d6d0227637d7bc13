from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.comment import MAX_CHARS, CommentOptions, expand_log_pattern, parse_comment
from recovery.core.types import Mode

NOTHING = CommentOptions()


def ours(**keys: object) -> str:
    return json.dumps({"recovery": keys})


def error_of(text: str) -> str:
    """The sentence for the owner; a broken comment asks for nothing else."""
    options = parse_comment(text)
    assert options == CommentOptions(error=options.error)
    assert options.error.startswith("It counts as absent. ")
    return options.error


def test_every_option_is_read() -> None:
    text = ours(mode="auto", max_restarts=3, run="llama-70b", checkpoint_dir="/ckpt/llama", log="/logs/%x-%j.out")
    assert parse_comment(text) == CommentOptions(
        mode=Mode.AUTO, max_restarts=3, run="llama-70b", checkpoint_dir="/ckpt/llama", log=("/logs/%x-%j.out",)
    )


def test_labels_and_the_format_are_read() -> None:
    options = parse_comment(ours(labels={"team": " vision ", "kind": "sweep"}, format="megatron"))
    assert options == CommentOptions(labels={"team": "vision", "kind": "sweep"}, format="megatron")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"labels": ["vision"]}, "labels must be an object of at most 20 texts"),
        ({"labels": {str(n): "x" for n in range(21)}}, "labels must be an object of at most 20 texts"),
        ({"labels": {"team": 7}}, 'labels: "team" must be a text of 1 to 100 printable characters, not 7.'),
        ({"labels": {"team": "x" * 101}}, 'labels: "team" must be a text'),
        ({"labels": {"": "vision"}}, 'labels: "a label\'s name" must be a text'),
        ({"format": "megaton"}, "format must be one of composer, deepspeed, "),
        ({"format": ["nemo"]}, "format must be one of "),
    ],
)
def test_wrong_labels_and_formats_are_named(keys: dict[str, object], said: str) -> None:
    assert said in error_of(ours(**keys))


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_can_be_asked_for(mode: Mode) -> None:
    assert parse_comment(ours(mode=mode.value)).mode is mode


@pytest.mark.parametrize(
    "text",
    ["", "   ", "debug run for the paper", "123", '"text"', "[1, 2]", "null", "{}", '{"other": {"mode": "kill"}}',
     '{"recovery": {}}', '{"recovery": null}', '{"recovery": {"mode": null}}', "recovery of last week's run"],
)  # fmt: skip
def test_a_comment_that_asks_for_nothing_is_no_error(text: str) -> None:
    assert parse_comment(text) == NOTHING


def test_the_keys_of_other_tools_are_left_alone() -> None:
    text = json.dumps({"OccupiedIdleGPUsJobReaper": {"exempt": True}, "recovery": {"mode": "observe"}, "x": [1, {}]})
    assert parse_comment(text) == CommentOptions(mode=Mode.OBSERVE)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{recovery: {mode: auto}}",
        '{"recovery": {"mode": "auto"}',
        "{'recovery': {'mode': 'auto'}}",
        '"recovery": {}',
    ],
)
def test_broken_json_is_told_with_the_remedy(text: str) -> None:
    error = error_of(text)
    assert "not valid JSON" in error
    assert "single quotes" in error


def test_the_place_of_the_fault_is_told() -> None:
    assert "at character 18" in error_of('{"recovery": {}, }')


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"mode": "full"}, ["mode", "observe, approve, auto", '"full"']),
        ({"mode": True}, ["mode", "true"]),
        ({"mode": ["auto"]}, ["mode"]),
        ({"mode": "AUTO"}, ["mode"]),
        ({"max_restarts": "3"}, ["max_restarts", "without quotes", '"3"']),
        ({"max_restarts": 3.0}, ["max_restarts"]),
        ({"max_restarts": True}, ["max_restarts"]),
        ({"max_restarts": -1}, ["max_restarts", "0 to 1000"]),
        ({"max_restarts": 10**30}, ["max_restarts"]),
        ({"run": 7}, ["run"]),
        ({"run": ""}, ["run"]),
        ({"run": "x" * 201}, ["run", "200"]),
        ({"run": "two\nlines"}, ["run", "printable"]),
        ({"run": "\ud800"}, ["run"]),
        ({"checkpoint_dir": "ckpt/run"}, ["checkpoint_dir", "absolute"]),
        ({"checkpoint_dir": "~/ckpt"}, ["checkpoint_dir", "absolute"]),
        ({"checkpoint_dir": "$HOME/ckpt"}, ["checkpoint_dir", "absolute"]),
        ({"checkpoint_dir": "/ckpt/../etc"}, ["checkpoint_dir", '".."']),
        ({"checkpoint_dir": "/ckpt/\0"}, ["checkpoint_dir"]),
        ({"checkpoint_dir": "/" + "x" * 1000}, ["checkpoint_dir", "1000"]),
        ({"log": "logs/%j.out"}, ["log", "absolute"]),
        ({"log": "/logs/.."}, ["log", '".."']),
        ({"log": []}, ["log", "1 to 8 paths"]),
        ({"log": ["/a"] * 9}, ["log", "1 to 8 paths"]),
        ({"log": ["/a", "b"]}, ["log", "absolute"]),
        ({"log": ["/a", ["/b"]]}, ["log", "text"]),
        ({"log": {"path": "/logs"}}, ["log"]),
        ({"metrics": "metrics.jsonl"}, ["metrics", "absolute"]),
        ({"nvrx_cycle_dir": 7}, ["nvrx_cycle_dir"]),
    ],
)
def test_a_wrong_value_names_the_key_and_what_is_allowed(keys: dict[str, object], named: list[str]) -> None:
    error = error_of(ours(**keys))
    for word in named:
        assert word in error


def test_one_wrong_value_makes_the_whole_comment_absent() -> None:
    assert error_of(ours(mode="auto", max_restarts="3"))


@pytest.mark.parametrize("section", [5, "auto", [], True])
def test_a_section_that_is_no_object_is_told(section: object) -> None:
    assert '"recovery" must be an object' in error_of(json.dumps({"recovery": section}))


def test_an_unknown_key_is_passed_over_and_told_with_the_nearest_known_one() -> None:
    options = parse_comment(ours(mode="observe", max_restart=3))
    assert options.mode is Mode.OBSERVE
    assert 'Did you mean "max_restarts"?' in options.error
    assert "absent" not in options.error


def test_an_unknown_key_that_resembles_nothing_is_told_with_all_known_ones() -> None:
    assert "mode, max_restarts, run, checkpoint_dir, log, format, labels, metrics" in parse_comment(ours(zzz=1)).error


def test_dots_inside_a_name_are_no_way_up() -> None:
    assert parse_comment(ours(checkpoint_dir="/ckpt/a..b/...")).checkpoint_dir == "/ckpt/a..b/..."


class TestMissionControl:
    """The comment that NVIDIA Mission Control's users already have."""

    def test_requeue_is_automatic_with_its_limit(self) -> None:
        text = '{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 1}}'
        assert parse_comment(text) == CommentOptions(mode=Mode.AUTO, max_restarts=1)

    def test_a_chain_of_dependent_jobs_is_only_observed(self) -> None:
        assert parse_comment('{"APS": {"auto_resume_mode": "singleton_dependency"}}').mode is Mode.OBSERVE

    def test_its_other_keys_are_its_own(self) -> None:
        assert parse_comment('{"APS": {"something": 1}}') == NOTHING

    def test_our_own_keys_win(self) -> None:
        text = '{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 5}, "recovery": {"mode": "approve"}}'
        assert parse_comment(text) == CommentOptions(mode=Mode.APPROVE, max_restarts=5)

    @pytest.mark.parametrize("section", [{"auto_resume_mode": "maybe"}, {"auto_resume_mode": 1}])
    def test_an_unknown_mode_is_told(self, section: dict[str, object]) -> None:
        error = error_of(json.dumps({"APS": section}))
        assert "requeue, singleton_dependency" in error

    def test_a_wrong_limit_is_told(self) -> None:
        assert "max_requeue_times" in error_of('{"APS": {"max_requeue_times": "1"}}')


class TestHostile:
    """A comment is written by anybody who may submit a job."""

    @pytest.mark.parametrize(
        "text",
        ["[" * 5000, '{"a":' * 1900, "{" * 9000, '{"recovery": ' + "9" * 9000 + "}", '{"recovery": ' + "[" * 4000],
    )
    def test_nesting_and_long_numbers_do_not_break_it(self, text: str) -> None:
        parse_comment(text)

    def test_an_endless_comment_is_refused_before_it_is_read(self) -> None:
        assert "longer than" in error_of('{"recovery": {"run": "' + "x" * MAX_CHARS + '"}}')

    def test_what_is_repeated_in_an_error_is_short_and_printable(self) -> None:
        error = error_of(ours(mode="\x1b[31m\n" + "x" * 5000))
        assert len(error) < 200
        assert error.isprintable()

    @given(st.text(max_size=200))
    def test_any_text_is_answered(self, text: str) -> None:
        assert parse_comment(text).error.isprintable()

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
            max_leaves=8,
        ),
        st.sampled_from(
            ["mode", "max_restarts", "run", "checkpoint_dir", "log", "auto_resume_mode", "max_requeue_times"]
        ),
        st.sampled_from(["recovery", "APS"]),
    )
    def test_any_value_of_any_key_gives_options_in_range_or_an_error(
        self, value: object, key: str, section: str
    ) -> None:
        options = parse_comment(json.dumps({section: {key: value}}))
        assert options.max_restarts is None or 0 <= options.max_restarts <= 1000
        for path in (options.checkpoint_dir, *options.log):
            assert path == "" or (path.startswith("/") and ".." not in path.split("/"))
        assert (options.run + options.checkpoint_dir + "".join(options.log) + options.error).isprintable()


@pytest.mark.parametrize(
    ("pattern", "expanded"),
    [
        ("/logs/%x-%j.out", "/logs/train-4711.out"),
        ("/logs/%u/%A_%a.out", "/logs/ada/4711_4294967294.out"),
        ("/logs/%8j.out", "/logs/00004711.out"),
        ("/logs/%99j.out", "/logs/0000004711.out"),
        ("/logs/%8x.out", "/logs/train.out"),
        ("/logs/100%%-%N.out", "/logs/100%-gpu-01.out"),
        ("/logs/%q-%z-%.out", "/logs/%q-%z-%.out"),
        ("/logs/plain.out", "/logs/plain.out"),
        ("/logs/%s-%t-%n", "/logs/batch-0-0"),
    ],
)
def test_slurms_patterns_are_filled_in(pattern: str, expanded: str) -> None:
    assert expand_log_pattern(pattern, job_id="4711", name="train", user="ada", batch_host="gpu-01.local") == expanded


def test_an_array_task_has_its_own_numbers() -> None:
    pattern = "/logs/%A/%a/%b/%j"
    assert (
        expand_log_pattern(pattern, job_id="4711_23", name="t", user="u", raw_job_id="4740") == "/logs/4711/23/3/4740"
    )


def test_a_part_of_a_heterogeneous_job_has_the_number_of_the_whole() -> None:
    assert expand_log_pattern("/logs/%j", job_id="4711+1", name="t", user="u") == "/logs/4711"


def test_an_unknown_host_leaves_the_pattern_as_it_stands() -> None:
    assert expand_log_pattern("/logs/%N.out", job_id="1", name="t", user="u") == "/logs/%N.out"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc", "a/b", "\0"])
def test_a_jobs_name_adds_no_folder(name: str) -> None:
    path = expand_log_pattern("/logs/%x.out", job_id="1", name=name, user="u")
    assert path.count("/") == 2
    assert "\0" not in path


def test_what_a_name_brings_in_is_not_expanded_again() -> None:
    assert expand_log_pattern("/logs/%x", job_id="1", name="%u%j", user="ada") == "/logs/%u%j"


def test_several_logs_can_be_named_once_each() -> None:
    assert parse_comment(ours(log=["/logs/%j.out", "/logs/%j-*.err", "/logs/%j.out"])).log == (
        "/logs/%j.out",
        "/logs/%j-*.err",
    )
