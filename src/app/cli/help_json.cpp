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
#include "models/forms/saved_form.hpp"
#include "models/recipe.hpp"
#include "shardweld/error.hpp"

#include "parse_options.hpp"

namespace shardweld::app {

/// manual.txt: exit codes, variables and files. The build makes it.
std::string_view manual_text();

namespace {

using nlohmann::ordered_json;

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

ordered_json command_json(const CommandRow& row) {
    return {{"name", row.name},
            {"usage", row.usage},
            {"summary", row.summary},
            {"about", row.about},
            {"arguments", row.others}};
}

ordered_json option_json(const OptionRow& row) {
    return {{"name", row.name},
            {"letter", row.letter == 0 ? "" : std::string(1, row.letter)},
            {"group", row.group},
            {"is_listed", !row.group.empty()},
            {"value", row.value},
            {"kind", kind_of_value(row)},
            {"words", row.set.words},
            {"may_lack_value", row.may_lack_value()},
            {"is_repeated", row.is_repeated},
            {"help", row.help},
            {"help_by_command", ordered_json::object()}};
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
    return collect_list(
        models::built_in_sources(),
        [](const models::RecipeFile& source) { return fs::path(source.file_name).stem().string(); },
        [](const models::RecipeFile& source) {
            return !source.file_name.ends_with(models::kListEnding);
        });
}

/// The row of that name or code; a new one, null, where there is none.
ordered_json& row_in(ordered_json& rows, const ordered_json& name, const char* key) {
    for (ordered_json& row : rows) {
        if (row.at(key) == name) {
            return row;
        }
    }
    return rows.emplace_back();
}

/// Puts a command and its options behind the others.
void add_command(ordered_json& help, const CommandRow& command) {
    help.at("commands").push_back(command_json(command));
    for (const OptionRow& row : rows_for(command)) {
        ordered_json& option = row_in(help.at("options"), row.name, "name");
        if (option.is_null()) {
            option = option_json(row);
        }
        if (row.is_in_help_of(command) && !row.group.empty()) {
            option["is_listed"] = true;
            option["help_by_command"][std::string(command.name)] = help_for(row, command);
        }
    }
}

/// Adds the command to the codes, variables and files of which its description tells.
void add_manual(ordered_json& help, const CommandRow& command) {
    for (const auto& [part, key] :
         {std::pair("exit_codes", "code"), {"environment", "name"}, {"files", "name"}}) {
        for (const auto& [name, meaning] : command.told->at(part).items()) {
            const ordered_json value =
                key == std::string("code") ? ordered_json::parse(name) : ordered_json(name);
            ordered_json& row = row_in(help.at(part), value, key);
            if (row.is_null()) {
                row = {{key, value}, {"meaning", meaning}, {"commands", ordered_json::array()}};
            }
            row["commands"].push_back(command.name);
        }
    }
}

}  // namespace

std::string help_json_of(const CommandRow& command) {
    ordered_json all = {{"commands", ordered_json::array()}, {"options", ordered_json::array()}};
    add_command(all, command);
    ordered_json own = ordered_json::array();
    std::ranges::copy_if(all.at("options"), std::back_inserter(own),
                         [](auto& option) { return !option.at("help_by_command").empty(); });
    return ordered_json{{"version", version()}, {"name", command.name}, {"options", own}}.dump(2) +
           "\n";
}

std::string help_json() {
    ordered_json help = {{"version", version()},
                         {"commands", ordered_json::array()},
                         {"options", ordered_json::array()},
                         {"recipes", recipes_json()},
                         {"exit_codes", exit_codes_json()},
                         {"environment", manual_json("environment")},
                         {"files", manual_json("files")}};
    for (const CommandRow& command : command_rows()) {
        add_command(help, command);
    }
    for (const std::string& name : installed_commands()) {
        const CommandRow command = installed_row(name);
        add_command(help, command);
        add_manual(help, command);
    }
    return help.dump(2) + "\n";
}

}  // namespace shardweld::app
