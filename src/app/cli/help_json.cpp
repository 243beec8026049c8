// All that can be said on the command line, for programs: packaging/pages.py makes manual pages and
// completions of it.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/runtime/external.hpp"
#include "app/runtime/version.hpp"
#include "app/settings/option_table.hpp"
#include "app/settings/text_rows.hpp"
#include "models/recipe.hpp"
#include "models/saved_form.hpp"
#include "shardweld/error.hpp"

#include "parse_options.hpp"

namespace shardweld::app {

/// manual.txt: exit codes, variables and files. The build makes it.
std::string_view manual_text();

namespace {

using nlohmann::ordered_json;

// Exit codes that every command has, those that are programs of their own, too.
constexpr int kCodesOfAll[] = {0, 2, 3, 7, 9, 70};

/// The names of a set of commands.
std::vector<std::string_view> names_of(unsigned commands) {
    return collect_list<std::string_view>(
        command_rows(), &CommandRow::name,
        [&](const CommandRow& command) { return (commands & bit_of(command.command)) != 0; });
}

std::string_view kind_of_value(const OptionRow& row) {
    if (row.names_path()) {
        return row.names_directory() ? "directory" : "file";
    }
    return row.is_flag() ? "none" : row.set.words.empty() ? "text" : "word";
}

ordered_json commands_json() {
    ordered_json commands = ordered_json::array();
    for (const CommandRow& row : command_rows()) {
        commands.push_back({{"name", row.name},
                            {"usage", row.usage},
                            {"summary", row.summary},
                            {"about", row.about},
                            {"arguments", row.others}});
    }
    return commands;
}

ordered_json options_json() {
    ordered_json options = ordered_json::array();
    for (const OptionRow& row : option_rows()) {
        ordered_json by_command = ordered_json::object();
        for (const CommandRow& command : command_rows()) {
            if (row.is_in_help_of(command)) {
                by_command[std::string(command.name)] = help_for(row, command);
            }
        }
        options.push_back({{"name", row.name},
                           {"letter", row.letter == 0 ? "" : std::string(1, row.letter)},
                           {"group", row.group},
                           {"is_listed", !row.group.empty()},
                           {"value", row.value},
                           {"kind", kind_of_value(row)},
                           {"words", row.set.words},
                           {"may_lack_value", row.may_lack_value()},
                           {"is_repeated", row.is_repeated},
                           {"help", row.help},
                           {"help_by_command", std::move(by_command)}});
    }
    return options;
}

ordered_json exit_codes_json() {
    ordered_json codes = ordered_json::array();
    for (const auto& [number, meaning, commands, none] : text_rows(manual_text(), "exit_codes")) {
        const int code = to_int(parse_index(number).value(), "an exit code");
        codes.push_back({{"code", code},
                         {"name", name_of(static_cast<ErrorCode>(code))},
                         {"meaning", meaning},
                         {"commands", names_of(commands_in(commands))}});
    }
    return codes;
}

ordered_json manual_json(std::string_view part) {
    ordered_json all = ordered_json::array();
    for (const auto& [name, meaning, commands, none] : text_rows(manual_text(), part)) {
        all.push_back(
            {{"name", name}, {"meaning", meaning}, {"commands", names_of(commands_in(commands))}});
    }
    return all;
}

ordered_json recipes_json() {
    ordered_json names = ordered_json::array();
    for (const models::RecipeFile& source : models::built_in_sources()) {
        if (!source.file_name.ends_with(models::kListEnding)) {
            names.push_back(fs::path(source.file_name).stem().string());
        }
    }
    return names;
}

}  // namespace

namespace {

ordered_json& row_of(ordered_json& rows, const ordered_json& name, const char* key) {
    for (ordered_json& row : rows) {
        if (row.at(key) == name) {
            return row;
        }
    }
    return rows.emplace_back();
}

/// Puts the rows of a command into those of all; a row that is there only learns the command.
void add_rows(ordered_json& all, const ordered_json& own, const char* key,
              const std::string& command) {
    for (const ordered_json& row : own) {
        ordered_json& known = row_of(all, row.at(key), key);
        if (known.empty()) {
            known = row;
            known["commands"] = ordered_json::array();
        }
        known["commands"].push_back(command);
    }
}

/// Puts an installed command's description where the built-in ones are.
void add_command(ordered_json& help, ordered_json told) {
    const std::string name = told.at("name");
    const std::string passes_on = told.at("passes_on");
    for (ordered_json& option : help.at("options")) {
        ordered_json& by_command = option.at("help_by_command");
        if (by_command.contains(passes_on)) {
            by_command[name] = by_command.at(passes_on);
        }
    }
    for (ordered_json& own : told.at("options")) {
        ordered_json& option = row_of(help.at("options"), own.at("name"), "name");
        if (option.empty()) {
            option = own;
            option["help_by_command"] = ordered_json::object();
        }
        if (own.at("is_listed").get<bool>()) {
            option["is_listed"] = true;
            option["help_by_command"][name] = own.at("help");
        } else {
            option["help_by_command"].erase(name);
        }
    }
    for (ordered_json& row : help.at("exit_codes")) {
        if (std::ranges::find(kCodesOfAll, row.at("code").get<int>()) != std::end(kCodesOfAll)) {
            row["commands"].push_back(name);
        }
    }
    add_rows(help.at("exit_codes"), told.at("exit_codes"), "code", name);
    add_rows(help.at("environment"), told.at("environment"), "name", name);
    add_rows(help.at("files"), told.at("files"), "name", name);
    for (const ordered_json& refused : told.value("refuses", ordered_json::array())) {
        ordered_json& option = row_of(help.at("options"), refused, "name");
        if (option.empty()) {
            throw Error(ErrorCode::unsupported,
                        "the command " + name + " refuses --" + refused.get<std::string>() +
                            ", which this program has not",
                        kOtherVersion);
        }
        option.at("help_by_command").erase(name);
    }
    for (const char* key :
         {"passes_on", "refuses", "options", "exit_codes", "environment", "files"}) {
        told.erase(key);
    }
    help.at("commands").push_back(std::move(told));
}

}  // namespace

std::string help_json_of(const std::string& command) {
    ordered_json options = options_json();
    for (std::size_t i = options.size(); i > 0; --i) {
        const ordered_json& by_command = options[i - 1].at("help_by_command");
        if (!by_command.contains(command)) {
            options.erase(i - 1);
        }
    }
    return ordered_json{{"version", version()}, {"name", command}, {"options", std::move(options)}}
               .dump(2) +
           "\n";
}

std::string help_json() {
    ordered_json help = {{"version", version()},
                         {"commands", commands_json()},
                         {"options", options_json()},
                         {"recipes", recipes_json()},
                         {"exit_codes", exit_codes_json()},
                         {"environment", manual_json("environment")},
                         {"files", manual_json("files")}};
    for (const External& external : installed_externals()) {
        try {
            add_command(help, ordered_json::parse(description_of(external)));
        } catch (const nlohmann::json::exception&) {
            throw Error(ErrorCode::unsupported,
                        "the command " + external.name +
                            " describes itself otherwise than this "
                            "program reads it",
                        kOtherVersion);
        }
    }
    return help.dump(2) + "\n";
}

}  // namespace shardweld::app
