#include "save_state.hpp"

#include <array>
#include <charconv>

namespace shardweld::formats::megatron {

namespace {

/// "" for what is not a number.
std::string number_text(const PickleValue& value) {
    if (value.kind == PickleKind::real) {
        std::array<char, 64> buffer{};
        const auto end =
            std::to_chars(buffer.data(), buffer.data() + buffer.size(), value.real).ptr;
        return {buffer.data(), end};
    }
    return value.kind == PickleKind::integer ? std::to_string(value.integer) : "";
}

}  // namespace

catalogue::Statement state_statement(const PickleValue& root, const std::string& file) {
    catalogue::Statement statement{file, "its state", {}, {}};
    const auto add = [&](const char* name, const PickleValue* value) {
        if (const std::string text = value == nullptr ? "" : number_text(*value); !text.empty()) {
            statement.save[name] = text;
        }
    };
    add("iteration", root.find("iteration"));
    add("operations so far", root.find("num_floating_point_operations_so_far"));
    const PickleValue* scheduler = root.find("opt_param_scheduler");
    if (scheduler != nullptr && scheduler->is_mapping()) {
        add("scheduler steps", scheduler->find("num_steps"));
    }
    return statement;
}

}  // namespace shardweld::formats::megatron
