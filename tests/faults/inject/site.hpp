// A system call of the program under test: what it is, on which kind of file, in which phase.
// Knows paths and the order of a merge's phases; nothing of faults.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace shardweld::faults {

enum class Call {
    open,
    read,
    write,
    fsync,
    writeback,
    hint,
    reserve,
    resize,
    rename,
    mkdir,
    unlink,
    close,
    stat,
    list,
    allocate,
    lock,
};
inline constexpr std::array<std::string_view, 16> kCalls = {
    "open",   "read",  "write",  "fsync", "writeback", "hint", "reserve",  "resize",
    "rename", "mkdir", "unlink", "close", "stat",      "list", "allocate", "lock"};

/// Whose file it is; `none` is of no interest (libraries', the launcher's).
enum class Side { none, input, output, report };
inline constexpr std::array<std::string_view, 4> kSides = {"none", "input", "output", "report"};

/// A merge's way, as its system calls show it.
enum class Phase { survey, bind, create, execute, publish, report };
inline constexpr std::array<std::string_view, 6> kPhases = {"survey",  "bind",    "create",
                                                            "execute", "publish", "report"};

struct Site {
    Call call = Call::open;
    Side side = Side::none;
    Phase phase = Phase::survey;
    std::string path;
};

/// Where the files under test are, from SHARDWELD_FAULT_INPUT, _OUTPUT (directories) and _REPORT.
class Places {
  public:
    Places();
    [[nodiscard]] Side side_of(std::string_view path) const;

  private:
    std::string input_;
    std::string output_;
    std::string report_;
};

/// The phase this process is in once it makes this call; phases only go forward. `flags` are
/// those of open(2).
Phase phase_after(Phase now, Call call, Side side, std::string_view path, int flags);

}  // namespace shardweld::faults
