// Descriptions of installed commands as rows: they are parsed and shown by the code of all others.
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/settings/option_table.hpp"
#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "external.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

/// A text of a description, which outlives what is made of it.
std::string_view text_in(const ordered_json& row, const char* key,
                         std::string_view otherwise = "") {
    const auto found = row.find(key);
    return found == row.end() ? otherwise : found->get_ref<const std::string&>();
}

std::vector<std::string_view> names_told(const ordered_json& row, const char* key) {
    std::vector<std::string_view> names;
    for (const ordered_json& name : row.at(key)) {
        names.emplace_back(name.get_ref<const std::string&>());
    }
    return names;
}

/// The value of an option as its command is told of it: numbers as Python reads them, and words as
/// their makers write them.
std::string plain_value(const Given& given, std::string_view kind,
                        const std::vector<std::string>& words) {
    if (kind == "number") {
        return std::to_string(number_in(given, 1));
    }
    if (kind == "bytes") {
        return std::to_string(size_in(given));
    }
    if (kind == "seconds" || kind == "moment") {
        return std::to_string(kind == "seconds" ? duration_in(given) : moment_in(given));
    }
    for (const std::string& word : words) {
        if (in_small_letters(word) == in_small_letters(given.text)) {
            return word;
        }
    }
    if (!words.empty()) {
        refuse_value(given, words);
    }
    return given.text;
}

/// Puts an option into what the command is given: "--NAME=VALUE", behind `in_front`.
auto put_behind(const std::string& in_front, bool is_flag, std::string_view kind = "",
                const std::vector<std::string>& words = {}) {
    return [=](const Given& given, Job& job) {
        for (const std::string_view text : split(given.text, kNextValue)) {
            const Given one{given.name, std::string(text)};
            job.installed.push_back(in_front + "--" + std::string(given.name) +
                                    (is_flag ? "" : "=" + plain_value(one, kind, words)));
        }
    };
}

OptionRow own_row(const ordered_json& told) {
    OptionRow row{text_in(told, "name"),     text_in(told, "value"),
                  bit_of(Command::external), text_in(told, "group", "Options"),
                  text_in(told, "help"),     {}};
    row.letter = *told.value("letter", std::string()).c_str();
    row.is_repeated = told.value("is_repeated", false);
    row.set.words = told.value("words", std::vector<std::string>());
    row.set.put = put_behind("", row.is_flag(), text_in(told, "kind"), row.set.words);
    return row;
}

/// All that the command line may have: the command's own options, and behind them those of other
/// commands.
std::vector<OptionRow> rows_told(const ordered_json& told, std::string_view passes_on) {
    std::vector<OptionRow> rows;
    std::ranges::transform(told.at("options"), std::back_inserter(rows), own_row);
    const auto refused = told.value("refuses", std::vector<std::string>());
    const CommandRow* const other = find_item(command_rows(), passes_on, &CommandRow::name);
    for (OptionRow row : option_rows()) {
        if (find_item(rows, row.name, &OptionRow::name) != nullptr) {
            continue;
        }
        if (other != nullptr && row.is_taken_by(other->command) && !contains(refused, row.name)) {
            row.commands |= bit_of(Command::external);
            row.help = help_for(row, *other);
            row.set.put = put_behind("--passed_on=", row.is_flag());
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

/// The description in a folder, with the rows that commands share in the place of their names.
ordered_json read_description(const fs::path& folder, const std::string& name) {
    auto told = ordered_json::parse(io::read_text(folder / (name + ".json")));
    const auto shared = ordered_json::parse(io::read_text(folder / "shared.json"));
    for (ordered_json& option : told.at("options")) {
        if (option.is_string()) {
            const std::string called = option;
            option = shared.at(called);
            option["name"] = called;
        }
    }
    told["name"] = name;
    for (const char* const part : {"exit_codes", "environment", "files"}) {  // that all have
        told[part].update(shared.at(part));
    }
    told["about"] = joined(told.at("about").get<std::vector<std::string>>(), "\n") + "\n";
    return told;
}

}  // namespace

CommandRow installed_row(const std::string& name) {
    try {
        const fs::path folder = find_installed_command(name).value().parent_path();
        const auto told = std::make_shared<const ordered_json>(
            read_description(folder / "shardweld_commands/descriptions", name));
        CommandRow row{text_in(*told, "name"),  Command::external,         {},
                       text_in(*told, "usage"), text_in(*told, "summary"), text_in(*told, "about")};
        row.others = names_told(*told, "arguments");
        row.needed = names_told(*told, "needs");
        row.passes_on = text_in(*told, "passes_on");
        row.told = told;
        row.options_told =
            std::make_shared<const std::vector<OptionRow>>(rows_told(*told, row.passes_on));
        for (const ordered_json& option : told->at("options")) {
            if (option.value("is_usual", true) && text_in(option, "group", "Options") != "") {
                row.usual.push_back(text_in(option, "name"));
            }
        }
        return row;
    } catch (const nlohmann::json::exception&) {
        throw Error(
            ErrorCode::unsupported,
            "the command " + name + " describes itself otherwise than this program reads it",
            kOtherVersion);
    }
}

}  // namespace shardweld::app
