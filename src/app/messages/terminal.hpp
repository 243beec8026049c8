// Whether people look at what this process says, and how wide their window is.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace shardweld::app {

/// The terminal at the end of standard error, through a launcher's pipe or directly.
class Terminal {
  public:
    /// Takes `fd`, and closes it if it is not standard error.
    explicit Terminal(int fd);
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;
    Terminal(Terminal&&) = delete;
    Terminal& operator=(Terminal&&) = delete;

    /// Columns as of now; 80 where the terminal does not tell.
    [[nodiscard]] std::size_t width() const;
    /// Not with NO_COLOR.
    [[nodiscard]] bool has_colours() const { return has_colours_; }

  private:
    int fd_;
    bool has_colours_;
};

/// Standard error itself, or what mpirun, mpiexec or prterun above this process has as its own:
/// they pass on what ranks say. nullptr where there is none, as in files, in Slurm's logs and where
/// the launcher runs on another host.
std::shared_ptr<const Terminal> find_terminal();

/// The launcher among the processes above this one, on this host; 0: none is seen.
int launcher_above();

/// Whether a process of this name passes on what the ranks below it say.
bool is_launcher(const std::string& name);

}  // namespace shardweld::app
