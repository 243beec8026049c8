#include "external.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include "core/process/shared_object.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr std::string_view kPrefix = "shardweld-";
constexpr const char* kPython = "python3";

/// Small letters, digits, '-' and '_', the first one a letter: no path, no option.
bool is_external_name(std::string_view name) {
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    return !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, [&](char c) {
        return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_';
    });
}

bool is_built_in(std::string_view name) {
    const auto& rows = command_rows();
    return name == "help" || name == "version" ||
           std::ranges::any_of(rows, [&](const CommandRow& row) { return row.name == name; });
}

/// The Python of a virtual environment that the program lies in, else the first on PATH.
fs::path find_python(const std::string& command) {
    if (const auto own = find_installed(kPython); own && find_installed("../pyvenv.cfg")) {
        return *own;
    }
    if (const auto python = process::find_program(kPython)) {
        return *python;
    }
    throw Error(
        ErrorCode::not_found,
        "shardweld " + command + " is written in Python, and there is no " + kPython + " on PATH",
        "put Python 3.8 or newer on PATH; it needs nothing beside its standard library");
}

fs::path own_program() {
    return installed_places("x").front().parent_path() /
           fs::read_symlink("/proc/self/exe").filename();
}

/// The words that run an installed command's file; the first behind it tells that the others were
/// parsed.
std::vector<std::string> command_line_of(const std::string& name, const fs::path& file,
                                         const std::vector<std::string>& words) {
    std::vector<std::string> line{find_python(name).string(), file.string(), "--parsed"};
    append_all(line, words);
    return line;
}

}  // namespace

std::vector<std::string> installed_commands() {
    std::vector<std::string> found;
    const auto folder = find_installed("../libexec/shardweld");
    if (!folder) {
        return found;
    }
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(*folder, error)) {
        const std::string file = entry.path().filename().string();
        if (file.starts_with(kPrefix)) {
            std::string name = file.substr(kPrefix.size());
            if (find_installed_command(name) && !is_built_in(name)) {
                found.push_back(std::move(name));
            }
        }
    }
    std::ranges::sort(found);
    return found;
}

std::optional<fs::path> find_installed_command(const std::string& name) {
    if (!is_external_name(name)) {  // as most words behind a command
        return std::nullopt;
    }
    auto file = find_installed("../libexec/shardweld/" + std::string(kPrefix) + name);
    return file && process::is_program(*file) ? file : std::nullopt;
}

std::vector<std::string> with_command_name(std::vector<std::string> arguments) {
    if (arguments.size() < 3) {
        return arguments;
    }
    const auto asked = std::ranges::find(arguments, "--sbatch");
    const std::string both = arguments[1] + "-" + arguments[2];
    if (find_installed_command(both)) {
        arguments.erase(arguments.begin() + 1);
        arguments[1] = both;
    } else if (arguments[1] == "plan" && asked != arguments.end() &&
               find_installed_command("sbatch")) {
        arguments.erase(asked);
        arguments[1] = "sbatch";
    }
    return arguments;
}

std::optional<std::vector<std::string>> words_on_path(const std::vector<std::string>& arguments) {
    const bool is_help = arguments.size() > 2 && arguments[1] == "help";
    const std::string name = arguments.size() < 2 ? "" : arguments[is_help ? 2 : 1];
    if (!is_external_name(name) || is_built_in(name) || find_installed_command(name) ||
        io::kind_at(name) != io::FileKind::none) {
        return std::nullopt;
    }
    const auto file = process::find_program(std::string(kPrefix) + name);
    if (!file) {
        return std::nullopt;
    }
    std::vector<std::string> words{file->string()};
    if (is_help) {
        words.emplace_back("--help");
    } else {
        words.insert(words.end(), arguments.begin() + 2, arguments.end());
    }
    return words;
}

void become(const std::vector<std::string>& line) {
    const std::vector<char*> words = process::exec_words(line);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no threads yet
    (void)::setenv("SHARDWELD_PROGRAM", own_program().c_str(), 1);
    (void)::execv(words.front(), words.data());
    throw Error(ErrorCode::launch, "cannot run " + printable(line.front()) + ": " +
                                       std::generic_category().message(errno));
}

void become_installed(const std::vector<std::string>& words) {
    become(command_line_of(words.front(), find_installed_command(words.front()).value(),
                           {words.begin() + 1, words.end()}));
}

void become_own(const std::string& name, const std::vector<std::string>& arguments,
                const std::string& hint) {
    const auto file = find_installed_command(name);
    if (!file) {
        throw Error(ErrorCode::unsupported, "this installation of shardweld has no " + name, hint);
    }
    std::vector<std::string> line{file->string()};
    line.insert(line.end(), arguments.begin() + 1, arguments.end());
    become(line);
}

process::Process installed_command(const std::string& name, const std::vector<std::string>& words) {
    const auto file = find_installed_command(name);
    if (!file) {
        throw Error(ErrorCode::not_found, "the command " + name + " is not installed",
                    kOtherVersion);
    }
    const std::vector<std::string> line = command_line_of(name, *file, words);
    process::Process process;
    process.program = line.front();
    process.arguments.assign(line.begin() + 1, line.end());
    process.environment = {"SHARDWELD_PROGRAM=" + own_program().string()};
    return process;
}

}  // namespace shardweld::app
