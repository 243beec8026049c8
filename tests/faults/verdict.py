"""What may come of a fault: the model is there, whole and with the right bytes, or nothing is, and the message says why. Knows the documented codes;
nothing of how faults are chosen."""
import errno
import os
import re

from program import Failed

SECONDS = 20  # until all ranks have ended, on a busy machine
CODES = {"EIO": {7}, "EACCES": {7}, "ESTALE": {7}, "ENOSPC": {8}, "EDQUOT": {8}, "ENOMEM": {9}, "ENOENT": {3, 7}}
CHANGES = ("scribble", "grow", "shorten", "replace", "vanish")
# What a merge can do without: a call that fails here may leave it a success.
_HARMLESS = {"EINTR", "EOPNOTSUPP"}
_OPTIONAL_CALLS = {"hint", "reserve", "unlink", "stat", "list"}


def judge(stage, fault, outcome):
    """"whole": the model is there, "refused": an agreed error and nothing there, "resumed": the same, and --resume then made it whole. Failed for everything else."""
    try:
        _must_have_struck(outcome)
        if outcome.code is None:
            raise Failed("did not end")
        if outcome.wall_s > SECONDS:
            raise Failed(f"ended after {outcome.wall_s:.0f} s")
        return _whole(stage, fault, outcome) if outcome.code == 0 else _refused(stage, fault, outcome)
    except Failed as failure:
        struck = "; ".join(f"rank {one.rank} {one.phase} {one.call} {one.path}" for one in outcome.struck[:3])
        raise Failed(f"{stage.scenario.name}: {fault}: {failure}\n    struck: {struck}\n    code {outcome.code}: "
                     + outcome.stderr.strip()[-900:].replace("\n", "\n    ")) from None


def _must_have_struck(outcome):
    if not outcome.struck:
        raise Failed("the fault did not happen")


def _whole(stage, fault, outcome):
    if stage.now() != stage.good and not _only_leftovers(stage, outcome) and not _only_old_files(stage, outcome):
        raise Failed("success, but other files or bytes than without the fault: " + difference(stage.good, stage.now()))
    if fault.action == "error" and fault.error not in _HARMLESS:
        for one in outcome.struck:
            if not _is_optional(stage, one):
                raise Failed("success, though a call failed on which the result depends")
    return "whole"


def _is_optional(stage, one):
    """Closing what was only read, and calls that make things quicker or tidier; failed ones of the rest must not pass."""
    is_hidden = os.path.basename(one.path).startswith(".")  # the lock, the nonce; directories, which are opened only to be synced
    return (one.call in _OPTIONAL_CALLS or one.call == "close" and (one.side == "input" or is_hidden or one.path in (stage.out, stage.target))
            or one.side == "output" and is_hidden and one.call in ("open", "write", "resize", "read")
            or one.call == "open" and one.phase in ("survey", "bind") and os.path.isdir(one.path)  # asked for its quotas, which may be unknown
            # Evidence of the save, not tensors: without it less is proved.
            or one.side == "input" and os.path.basename(one.path).startswith(("extra_state_", "optim_"))
            or one.call == "close" and "/journal" in one.path)  # of a model that is complete


def _only_leftovers(stage, outcome):
    """Hidden files and directories that could not be removed, because removing failed."""
    good, now = stage.good, stage.now()
    has_struck = any(one.call in ("unlink", "list", "stat", "open") for one in outcome.struck)
    return has_struck and all(now.get(name) == digest for name, digest in good.items()) and all(
        name in good or name.startswith(".model.shardweld-") or name.startswith("model/.shardweld-") for name in now)


def _only_old_files(stage, outcome):
    """Without the right to make anything beside the target its files are replaced one by one: those that are no model's stay."""
    good, now = stage.good, stage.now()
    return (any(one.call == "open" and os.path.basename(one.path) == ".model.shardweld-lock" for one in outcome.struck)
            and all(now.get(name) == digest for name, digest in good.items()) and all(name in good or now[name] == stage.before().get(name) for name in now))


def _refused(stage, fault, outcome):
    if outcome.code < 0:
        raise Failed(f"ended by signal {-outcome.code}")
    if len(outcome.errors) != 1:
        raise Failed(f"{len(outcome.errors)} messages instead of one")
    _check_message(stage, fault, outcome)
    if _keeps_work(stage, outcome):
        if fault.action == "vanish":
            stage.restore_input()
        return _resumed(stage)
    report_only = all(one.side == "report" or one.call == "allocate" and "the report" in outcome.errors[0] for one in outcome.struck)
    expected = stage.good if report_only else stage.before()
    if stage.now() != expected and not (_only_unremoved(stage, outcome)):
        raise Failed("left other files than there were before: " + difference(expected, stage.now()))
    return "refused"


def _keeps_work(stage, outcome):
    """Whether the message says that finished blocks are kept, and nothing but them is."""
    before, now = stage.before(), stage.now()
    return ("the same command continues" in outcome.errors[0] and all(now.get(name) == digest for name, digest in before.items())
            and all(name in before or name.startswith((".model.shardweld-partial/", "model/.shardweld-partial/")) for name in now))


def _resumed(stage):
    """What was kept must lead to the model as if nothing had failed."""
    again = stage.merge_again("", ("--resume",))
    if again.code != 0 or stage.now() != stage.good:
        raise Failed(f"--resume after it exits with code {again.code}: {again.stderr[-600:]}; " + difference(stage.good, stage.now()))
    return "resumed"


def _only_unremoved(stage, outcome):
    """Where removing itself failed, or a rank had no memory to come to an agreement, hidden leftovers are all that may stay."""
    before, now = stage.before(), stage.now()
    return (any(one.call in ("unlink", "list", "stat", "open", "allocate") for one in outcome.struck) and all(now.get(name) == digest for name, digest in before.items())
            and all(name in before or name.startswith((".model.shardweld-", "model/.shardweld-")) for name in now))


def _check_message(stage, fault, outcome):
    text, first = outcome.errors[0], outcome.struck[0]
    if fault.action in CHANGES:
        allowed = {3, 4, 7}
    elif fault.action == "error":
        allowed = CODES.get(fault.error, set())
    else:
        raise Failed("this must not make a merge fail")
    if outcome.code not in allowed:
        raise Failed(f"code {outcome.code} instead of {sorted(allowed)}")
    if first.call == "allocate":
        return
    # A rank that failed together with others is not always the one that speaks.
    # A file that changes has changed for all who read it.
    speakers = range(stage.scenario.ranks) if fault.action in CHANGES else {one.rank for one in outcome.struck}
    if stage.scenario.ranks > 1 and not any(re.search(rf"rank {rank} \([^)]+\)", text) for rank in speakers):
        raise Failed("the message does not name rank and host")
    if not any(os.path.basename(one.path).removesuffix(f".partial-{os.getpid()}") in text or os.path.dirname(one.path) in text for one in outcome.struck):
        raise Failed("the message does not name the file")
    if fault.action == "error":
        number = getattr(errno, fault.error)
        if f"{os.strerror(number)} (errno {number})" not in text:
            raise Failed("the message does not name the system's reason")
        if first.call in ("read", "write") and "offset" not in text:
            raise Failed("the message does not name the offset")


def difference(expected, got):
    if got is None:
        return "nothing there"
    missing = sorted(set(expected) - set(got))
    more = sorted(set(got) - set(expected))
    other = sorted(name for name in set(got) & set(expected) if got[name] != expected[name])
    return f"missing {missing[:4]}, too many {more[:4]}, other {other[:4]}"
