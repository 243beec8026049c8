#include "manual.hpp"

#include <algorithm>
#include <cctype>

#include "shardweld/core/text.hpp"

#include "manual_rows.hpp"
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

/// The rows of `commands`, each as an entry.
std::string entries(const std::vector<ManualRow>& rows, unsigned commands) {
    std::string text;
    for (const ManualRow& row : rows) {
        if ((row.commands & commands) != 0) {
            text += entry(bold(row.term), row.text);
        }
    }
    return text;
}

std::string exit_status(unsigned commands) {
    std::string text;
    for (const ExitRow& row : exit_rows()) {
        if ((row.commands & commands) != 0) {
            text += entry(bold(std::to_string(static_cast<int>(row.code))), row.meaning);
        }
    }
    return text + ".PP\nAll ranks end with the same code, which mpirun and srun return.\n";
}

std::string see_also() {
    std::string text = bold("shardweld") + "(1)";
    for (const CommandRow& command : command_rows()) {
        text += ",\n" + bold("shardweld-" + std::string(command.name)) + "(1)";
    }
    return text + "\n";
}

/// The sections that all pages end with.
std::string last_sections(unsigned commands, std::string_view examples) {
    return section("EXIT STATUS", exit_status(commands)) +
           section("ENVIRONMENT", entries(environment_rows(), commands)) +
           section("FILES", entries(file_rows(), commands)) +
           section("EXAMPLES", verbatim(examples)) + section("SEE ALSO", see_also());
}

std::string commands() {
    std::string text;
    for (const CommandRow& command : command_rows()) {
        text += entry(bold(command.name), command.summary);
    }
    return text;
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
           section(
               "DESCRIPTION",
               paragraphs("Merges the shards that training jobs leave behind into one model "
                          "directory, with as many ranks as the launcher starts. Each command "
                          "has a page of its own. Option names may be written with - or _. Results "
                          "go to standard output, messages to standard error.\n")) +
           section("COMMANDS", commands()) +
           last_sections(kEvery,
                         "  shardweld inspect ckpt/global_step_100\n"
                         "  mpirun -n 8 shardweld merge --local_dir ckpt/global_step_100/actor \\\n"
                         "      --target_dir merged\n"
                         "  shardweld verify merged\n");
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
    return page + section("OPTIONS", options_of(command)) +
           last_sections(bit_of(command.command),
                         command.about.substr(examples + kExamples.size()));
}

}  // namespace shardweld::app
