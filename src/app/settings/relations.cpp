// Which options go together: a row for each relation, and one sentence for each kind.
#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "core/text.hpp"

#include "option_table.hpp"
#include "settle.hpp"

namespace shardweld::app {

namespace {

enum class Relates {
    excludes,  ///< each of the options each of the others
    needs,     ///< each of the options one of the others
};

/// Names of options, with blanks between them; "name=A|B" is the option with one of these values,
/// in which '*' is any text.
struct Relation {
    std::string_view options;
    Relates kind;
    std::string_view others;
    std::string_view why = {};   ///< a clause behind the sentence
    std::string_view hint = {};  ///< "": that of its kind
};

std::span<const Relation> relations() {
    using enum Relates;
    static constexpr Relation kRelations[] = {
        {"mesh_dim_names", needs, "mesh_shape"},
        {"mesh_shape", needs, "mesh_dim_names"},
        {"hf_config", excludes, "hf_model_path", "they mean the same"},
        {"task_arithmetic", needs, "scale"},
        {"scale", needs, "task_arithmetic"},
        {"average_weights average_decay", needs, "average"},
        {"average", excludes, "task_arithmetic"},
        {"average_weights", excludes, "average_decay"},
        {"private revision hf_cli", needs, "hf_upload_path"},
        {"max_readers", excludes, "strategy=direct", "it lets every rank read"},
        {"resume", excludes, "restart"},
        {"quantize also", excludes, "output_format=hdf5",
         "it writes safetensors or, with gguf:*, GGUF", "leave --output_format out"},
        {"quantize=gguf:*", excludes, "test_hf_dir",
         "it writes llama.cpp's names, which no model directory has",
         "compare what is written without it"},
        {"quantize=gguf:*", excludes, "max_shard_size", "a GGUF model is one file",
         "leave --max_shard_size out"},
        {"also", excludes, "average delta", {}, "merge once for each output"},
        {"like", excludes, "to", {}, "give --like alone: it says what form to write"},
        {"like_only_weights", needs, "like"},
        {"like",
         excludes,
         "dtype",
         {},
         "leave --dtype out: the template says in which type each tensor is written"},
        {"state=master|all", excludes,
         "average delta quantize include exclude dtype like also base supplement vocab_size",
         "an optimizer's states belong to all weights as they were trained"},
        {"supplement",
         excludes,
         "average delta base",
         {},
         "write the model first, and complete it in a second run with --supplement"},
        {"verbose", excludes, "quiet"},
    };
    return kRelations;
}

/// "--strategy direct" where values are asked for, else "--strategy"; "" where it is not given so.
std::string text_of_given(std::string_view option, const GivenTexts& given) {
    const std::size_t equals = std::min(option.find('='), option.size());
    const auto found = given.find(option.substr(0, equals));
    if (found == given.end()) {
        return "";
    }
    std::string name = "--" + found->first;
    if (equals == option.size()) {
        return name;
    }
    return any_glob_matches(split(option.substr(equals + 1), '|'), found->second)
               ? name + " " + found->second
               : "";
}

void require_related(const Relation& row, const std::string& one, const GivenTexts& given) {
    const auto others = split(row.others, ' ');
    std::string other;
    for (std::size_t i = 0; i < others.size() && other.empty(); ++i) {
        other = text_of_given(others[i], given);
    }
    const bool is_needed = row.kind == Relates::needs;
    if (other.empty() != is_needed) {
        return;
    }
    const std::string missing(others.front());
    const OptionRow& needed = *find_option(missing.substr(0, missing.find('=')));
    const std::string hint =
        is_needed ? "add --" + missing + (needed.is_flag() ? "" : " ") + std::string(needed.value)
                  : "leave one of them out";
    refuse(one + (is_needed ? " needs --" + missing : " and " + other + " exclude each other") +
               (row.why.empty() ? "" : ": ") + std::string(row.why),
           row.hint.empty() ? hint : std::string(row.hint));
}

}  // namespace

void check_relations(const GivenTexts& given) {
    for (const Relation& row : relations()) {
        for (const std::string_view option : split(row.options, ' ')) {
            if (const std::string one = text_of_given(option, given); !one.empty()) {
                require_related(row, one, given);
            }
        }
    }
}

}  // namespace shardweld::app
