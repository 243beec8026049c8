#include "manual.hpp"

#include <algorithm>
#include <cctype>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "version.hpp"

namespace shardweld::app {

namespace {

constexpr std::string_view kExamples = "Examples:\n";

/// Text as roff shows it as it is: backslashes and dashes escaped, no line taken for a request.
std::string escaped(std::string_view text) {
    std::string result;
    bool at_line_begin = true;
    for (const char c : text) {
        if (at_line_begin && (c == '.' || c == '\'')) {
            result += "\\&";
        }
        if (c == '\\') {
            result += "\\e";
        } else if (c == '-') {
            result += "\\-";
        } else {
            result += c;
        }
        at_line_begin = c == '\n';
    }
    return result;
}

std::string bold(std::string_view text) {
    return "\\fB" + escaped(text) + "\\fP";
}

std::string title(std::string_view name) {
    std::string upper(name);
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return ".TH " + escaped(upper) + R"( 1 "" "shardweld )" + escaped(version()) + "\" shardweld\n";
}

std::string section(std::string_view name, const std::string& body) {
    return ".SH " + std::string(name) + "\n" + body;
}

/// Lines that keep their breaks.
std::string verbatim(std::string_view text) {
    return ".nf\n" + escaped(text) + ".fi\n";
}

/// Paragraphs stand apart by empty lines, which roff would take literally.
std::string paragraphs(std::string_view text) {
    std::string result;
    bool is_first = true;
    for (const std::string_view line : split(text, '\n')) {
        if (line.empty()) {
            is_first = true;
            continue;
        }
        result += (is_first && !result.empty() ? ".PP\n" : "") + escaped(line) + "\n";
        is_first = false;
    }
    return result;
}

std::string entry(const std::string& term, std::string_view text) {
    return ".TP\n" + term + "\n" + escaped(text) + "\n";
}

std::string options_of(const CommandRow& command) {
    std::string text;
    std::string_view group;
    for (const OptionRow* row : listed_options(command)) {
        if (row->group != group) {
            group = row->group;
            text += ".SS " + std::string(group) + "\n";
        }
        std::string term;
        if (row->letter != 0) {
            term = bold(std::string("-") + row->letter) + ", ";
        }
        term += bold("--" + std::string(row->name));
        if (!row->is_flag()) {
            term += " \\fI" + escaped(row->value) + "\\fP";
        }
        text += entry(term, row->help);
    }
    return text;
}

std::string_view meaning_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::ok:
            return "done";
        case ErrorCode::usage:
            return "the command line, a recipe or the choice of a directory is wrong";
        case ErrorCode::not_found:
            return "there is no checkpoint, or not all of it";
        case ErrorCode::corrupt:
            return "a file is damaged or hostile";
        case ErrorCode::unsupported:
            return "recognised, but not handled";
        case ErrorCode::mismatch:
            return "shapes, dtypes, ranks, config or cover contradict each other";
        case ErrorCode::io:
            return "reading or writing failed";
        case ErrorCode::space:
            return "disk, quota or inodes are exhausted";
        case ErrorCode::memory:
            return "not enough memory";
        case ErrorCode::launch:
            return "MPI or the launcher";
        case ErrorCode::stopped:
            return "stopped, can be resumed";
        case ErrorCode::target:
            return "the target exists, is locked, or may not be written";
        case ErrorCode::differs:
            return "a comparison found differences";
        case ErrorCode::strict:
            return "a warning under --strict";
        case ErrorCode::no_client:
            return "upload: no client";
        case ErrorCode::no_token:
            return "upload: no token";
        case ErrorCode::no_rights:
            return "upload: the token or its rights were refused";
        case ErrorCode::no_repository:
            return "upload: no such repository or owner";
        case ErrorCode::no_network:
            return "upload: the Hub cannot be reached";
        case ErrorCode::interrupted:
            return "upload: begun and not finished";
        case ErrorCode::internal:
            return "a bug in shardweld";
    }
    return "";
}

std::string exit_status() {
    constexpr int kMostCode = 125;  // shells use what is above
    std::string text;
    for (int code = 0; code <= kMostCode; ++code) {
        const std::string_view meaning = meaning_of(static_cast<ErrorCode>(code));
        if (!meaning.empty()) {
            text += entry(bold(std::to_string(code)), meaning);
        }
    }
    return text + ".PP\nAll ranks end with the same code, which mpirun and srun return.\n";
}

std::string commands() {
    std::string text;
    for (const CommandRow& command : command_rows()) {
        text += entry(bold(command.name), command.summary);
    }
    return text;
}

std::string see_also() {
    std::string text = bold("shardweld") + "(1)";
    for (const CommandRow& command : command_rows()) {
        text += ",\n" + bold("shardweld-" + std::string(command.name)) + "(1)";
    }
    return text + "\n";
}

}  // namespace

std::string manual_page() {
    return title("shardweld") +
           section(
               "NAME",
               "shardweld \\- merge distributed training checkpoints into HuggingFace models\n") +
           section("SYNOPSIS", bold("shardweld") + " \\fICOMMAND\\fP [\\fIoptions\\fP]\n.br\n" +
                                   bold("mpirun -n") + " \\fIN\\fP " + bold("shardweld") +
                                   " \\fICOMMAND\\fP [\\fIoptions\\fP]\n") +
           section("DESCRIPTION",
                   paragraphs("Merges the shards that training jobs leave behind into one model "
                              "directory, with as many ranks as the launcher starts. Each command "
                              "has a page of its own. In option names - and _ are equal. Results "
                              "go to standard output, messages to standard error.\n")) +
           section("COMMANDS", commands()) + section("EXIT STATUS", exit_status()) +
           section("SEE ALSO", see_also());
}

std::string manual_page(const CommandRow& command) {
    const std::string name = "shardweld-" + std::string(command.name);
    const std::size_t examples = command.about.find(kExamples);
    std::string page = title(name) +
                       section("NAME", escaped(name) + " \\- " + escaped(command.summary) + "\n") +
                       section("SYNOPSIS", bold(command.usage) + "\n");
    if (examples > 0) {
        page += section("DESCRIPTION", paragraphs(command.about.substr(0, examples)));
    }
    page += section("OPTIONS", options_of(command));
    if (examples != std::string_view::npos) {
        page += section("EXAMPLES", verbatim(command.about.substr(examples + kExamples.size())));
    }
    return page + section("EXIT STATUS", "See " + bold("shardweld") + "(1).\n") +
           section("SEE ALSO", see_also());
}

}  // namespace shardweld::app
