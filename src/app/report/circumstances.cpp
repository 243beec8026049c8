#include "circumstances.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string_view>

#include <unistd.h>

#include "app/messages/terminal.hpp"
#include "core/path.hpp"
#include "core/text.hpp"
#include "process/shell.hpp"

namespace shardweld::app {

namespace {

std::string command_of(int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::vector<std::string> words;
    for (const std::string_view word : split(text, '\0')) {
        words.emplace_back(word);
    }
    if (!words.empty() && words.back().empty()) {
        words.pop_back();
    }
    return process::shell_line(words);
}

}  // namespace

bool is_telling(const std::string& variable) {
    constexpr std::array<std::string_view, 10> kTelling = {
        "SLURM_", "OMPI_MCA_", "OMPI_ALLOW_", "SHARDWELD_", "OMP_",
        "MPICH_", "I_MPI_",    "UCX_",        "FI_",        "TMPDIR"};
    // What mpirun tells its processes, and nobody else.
    constexpr std::array<std::string_view, 6> kDaemons = {
        "OMPI_MCA_orte_",        "OMPI_MCA_ess",    "OMPI_MCA_pmix",
        "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_", "OMPI_MCA_mpi_oversubscribe"};
    constexpr std::array<std::string_view, 6> kSecret = {"TOKEN",  "KEY", "SECRET",
                                                         "PASSWD", "JWT", "PASSWORD"};
    const auto begins = [&](std::string_view with) { return variable.starts_with(with); };
    const auto holds = [&](std::string_view word) {
        return variable.find(word) != std::string::npos;
    };
    return std::any_of(kTelling.begin(), kTelling.end(), begins) &&
           std::none_of(kDaemons.begin(), kDaemons.end(), begins) &&
           std::none_of(kSecret.begin(), kSecret.end(), holds);
}

Circumstances circumstances_of(const std::vector<std::string>& arguments) {
    Circumstances found;
    if (arguments.empty()) {
        return found;
    }
    found.command = process::shell_line(arguments);
    if (const int launcher = launcher_above(); launcher != 0) {
        found.launcher = command_of(launcher);
    }
    std::error_code unknown;
    found.directory = fs::current_path(unknown).string();
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::size_t equals = text.find('=');
        const std::string name(text.substr(0, equals));
        if (equals != std::string_view::npos && is_telling(name)) {
            found.variables[name] = text.substr(equals + 1);
        }
    }
    return found;
}

}  // namespace shardweld::app
