#include "external.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "app/settings/command_table.hpp"
#include "core/shared_object.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "process/process.hpp"
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

std::optional<fs::path> find_on_path(const std::string& name) {
    const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): no threads yet
    return process::find_program(name, path == nullptr ? "" : path);
}

/// What is no name, as most words behind a command, is not asked of the file system.
std::optional<External> find_installed_external(const std::string& name) {
    if (!is_external_name(name)) {
        return std::nullopt;
    }
    const auto file = find_installed("../libexec/shardweld/" + std::string(kPrefix) + name);
    return file && process::is_program(*file) ? std::optional(External{name, *file, true})
                                              : std::nullopt;
}

/// A directory of that name is inspected, as ever; a file beside it on PATH is not asked for.
std::optional<External> find_external(const std::string& name) {
    if (!is_external_name(name)) {
        return std::nullopt;
    }
    if (auto installed = find_installed_external(name)) {
        return installed;
    }
    if (io::kind_at(name) != io::FileKind::none) {
        return std::nullopt;
    }
    const auto file = find_on_path(std::string(kPrefix) + name);
    return file ? std::optional(External{name, *file, false}) : std::nullopt;
}

/// The Python of a virtual environment that the program lies in, else the first on PATH.
fs::path find_python(const std::string& command) {
    if (const auto own = find_installed(kPython); own && find_installed("../pyvenv.cfg")) {
        return *own;
    }
    if (const auto python = find_on_path(kPython)) {
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

/// The file to run and all of its words.
std::vector<std::string> command_line_of(const External& external,
                                         const std::vector<std::string>& words) {
    std::vector<std::string> line;
    if (external.is_installed) {
        line.push_back(find_python(external.name).string());
    }
    line.push_back(external.file.string());
    append_all(line, words);
    return line;
}

process::Process process_of(const External& external, const std::vector<std::string>& words) {
    const std::vector<std::string> line = command_line_of(external, words);
    process::Process process;
    process.program = line.front();
    process.arguments.assign(line.begin() + 1, line.end());
    process.environment = {"SHARDWELD_PROGRAM=" + own_program().string()};
    return process;
}

[[noreturn]] void become(std::vector<std::string> line) {
    std::vector<char*> pointers;
    for (std::string& word : line) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no threads yet
    (void)::setenv("SHARDWELD_PROGRAM", own_program().c_str(), 1);
    (void)::execv(pointers.front(), pointers.data());
    throw Error(ErrorCode::launch, "cannot run " + printable(line.front()) + ": " +
                                       std::generic_category().message(errno));
}

}  // namespace

std::vector<External> installed_externals() {
    std::vector<External> found;
    const auto folder = find_installed("../libexec/shardweld");
    if (!folder) {
        return found;
    }
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(*folder, error)) {
        const std::string file = entry.path().filename().string();
        if (file.starts_with(kPrefix)) {
            auto external = find_installed_external(file.substr(kPrefix.size()));
            if (external && !is_built_in(external->name)) {
                found.push_back(std::move(*external));
            }
        }
    }
    std::ranges::sort(found, {}, &External::name);
    return found;
}

std::optional<std::vector<std::string>> external_words(const std::vector<std::string>& arguments) {
    if (arguments.size() < 2) {
        return std::nullopt;
    }
    std::vector<std::string> words(arguments.begin() + 1, arguments.end());
    if (words.front() == "help" && words.size() > 1 && !is_built_in(words[1]) &&
        find_external(words[1])) {
        return std::vector<std::string>{words[1], "--help"};
    }
    if (words.size() > 1 && find_installed_external(words[0] + "-" + words[1])) {
        words.erase(words.begin());
        words.front() = arguments[1] + "-" + words.front();
        return words;
    }
    if (const auto asked = std::ranges::find(words, "--sbatch");
        words.front() == "plan" && asked != words.end() && find_installed_external("sbatch")) {
        words.erase(asked);
        words.front() = "sbatch";
        return words;
    }
    return !is_built_in(words.front()) && find_external(words.front()) ? std::optional(words)
                                                                       : std::nullopt;
}

void become_external(const std::vector<std::string>& words) {
    const External external = find_external(words.front()).value();
    become(command_line_of(external, {words.begin() + 1, words.end()}));
}

void become_own(const std::string& name, const std::vector<std::string>& arguments,
                const std::string& hint) {
    const auto external = find_installed_external(name);
    if (!external) {
        throw Error(ErrorCode::unsupported, "this installation of shardweld has no " + name, hint);
    }
    std::vector<std::string> line{external->file.string()};
    line.insert(line.end(), arguments.begin() + 1, arguments.end());
    become(std::move(line));
}

process::Process installed_command(const std::string& name, const std::vector<std::string>& words) {
    const auto external = find_installed_external(name);
    if (!external) {
        throw Error(ErrorCode::not_found, "the command " + name + " is not installed",
                    kOtherVersion);
    }
    return process_of(*external, words);
}

std::string description_of(const External& external) {
    if (const auto told = find_installed(external.file.string() + ".json")) {
        return io::read_text(*told);
    }
    std::string text;
    process::Process process = process_of(external, {"--describe"});
    process.on_line = [&](std::string_view part) { text += part; };
    const auto ending = process::run(process);
    if (!ending || !ending->is_success()) {
        throw Error(ErrorCode::internal,
                    printable(external.file.string()) + " --describe failed: " + printable(text),
                    kOtherVersion);
    }
    return text;
}

std::string summary_of(const External& external) {
    try {
        return nlohmann::json::parse(description_of(external)).at("summary");
    } catch (const Error& error) {
        return error.code() == ErrorCode::not_found ? "(needs Python)" : "(broken)";
    } catch (const nlohmann::json::exception&) {
        return "(broken)";
    }
}

}  // namespace shardweld::app
