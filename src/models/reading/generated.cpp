#include "generated.hpp"

#include "core/text.hpp"
#include "models/forms/saved_form.hpp"

namespace shardweld::models {

namespace {

/// "TYPE plain", "TYPE renamed", "TYPE cut", "TYPE cut one-way" or "TYPE refused REASON" a line.
constexpr std::string_view kProvedList = "generated/proved.list";

/// nullptr: it was not tried.
const TriedType* find_tried(std::string_view model_type) {
    const auto& types = tried_types();
    return find_item(types, model_type, &TriedType::name);
}

}  // namespace

const RecipeFile* built_in_file(std::string_view name) {
    return find_item(built_in_sources(), name, &RecipeFile::file_name);
}

std::string_view built_in_text(std::string_view name) {
    const RecipeFile* const file = built_in_file(name);
    return file == nullptr ? std::string_view() : file->text;
}

const std::vector<TriedType>& tried_types() {
    static const std::vector<TriedType> types = [] {
        constexpr std::string_view kRefused = "refused ";
        std::vector<TriedType> all;
        for (const std::string_view line : split(built_in_text(kProvedList), '\n')) {
            const std::size_t end = line.find(' ');
            if (line.starts_with("#") || end == std::string_view::npos) {
                continue;
            }
            const std::string_view kind = line.substr(end + 1);
            all.push_back({std::string(line.substr(0, end)), kind == "plain",
                           std::string(kind.starts_with(kRefused) ? kind.substr(kRefused.size())
                                                                  : std::string_view())});
        }
        return all;
    }();
    return types;
}

std::optional<RecipeFile> generated_source(std::string_view model_type) {
    const TriedType* const type = find_tried(model_type);
    if (type == nullptr || !type->refused.empty()) {
        return std::nullopt;
    }
    if (type->is_plain) {
        return RecipeFile{std::string(kProvedList),
                          "# Saved by transformers as the module tree has it.\nrecipe " +
                              replaced(replaced(type->name, "-", "_"), ".", "_") +
                              "\nformat 1\nuses none\nmatch @model_type = \"" + type->name +
                              "\"\npass *\n"};
    }
    const RecipeFile* const file = built_in_file(std::string(kGenerated) + type->name + ".recipe");
    return file == nullptr ? std::nullopt : std::optional(*file);
}

std::string refusal_of(std::string_view model_type) {
    if (const TriedType* const type = find_tried(model_type)) {
        return type->refused;
    }
    const SavedForm* const form = saved_form_of(model_type);
    return form != nullptr && form->is_unknown ? "no model of it could be built" : "";
}

}  // namespace shardweld::models
