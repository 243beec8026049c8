#include "save_state.hpp"

#include <optional>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"

#include "args.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::Catalogue;

void add_args(const PickleValue& args, const std::string& file, const ScalarReader& scalars,
              Catalogue& out) {
    out.claims = claims_of(args, scalars);
    out.facts[kArgsFact] = fingerprint_of(common_args(args, scalars));
    if (out.claims.empty()) {
        out.warnings["args_unread"] = "args in " + printable(file) + " are " + in_words(args.kind) +
                                      " without attributes: nothing is compared with them";
    }
}

void add_facts(const PickleValue& root, const ScalarReader& scalars, Catalogue& out) {
    constexpr Index kVersions = 1000;
    if (const auto iteration = scalars.index_of(root.find("iteration"))) {
        out.facts["iteration"] = *iteration;
    }
    const auto version = scalars.index_of(root.find("checkpoint_version"));
    if (version && *version >= 0 && *version < kVersions) {
        out.facts["version"] = *version;
    }
}

catalogue::Statement state_statement(const PickleValue& root, const std::string& file,
                                     const ScalarReader& scalars) {
    catalogue::Statement statement{file, "its state", {}, {}};
    const auto add = [&](const char* name, const PickleValue* value) {
        if (const auto text = value == nullptr ? std::nullopt : scalars.text_of(*value)) {
            statement.save[name] = *text;
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

}  // namespace

void add_state(const PickleValue& root, const std::string& file, const ScalarReader& scalars,
               Catalogue& out) {
    add_facts(root, scalars, out);
    if (const PickleValue* args = root.find("args")) {
        add_args(*args, file, scalars, out);
    }
    out.statements.push_back(state_statement(root, file, scalars));
}

}  // namespace shardweld::formats::megatron
