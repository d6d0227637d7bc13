"""What the whole test suite is made of; see tests/conftest.py for what every test may use."""

pytest_plugins = ("tests.left_out", "tests.one_database", "tests.services", "tests.browser", "tests.slurm.lab_fixture")
