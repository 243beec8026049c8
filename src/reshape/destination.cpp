#include "destination.hpp"

#include <algorithm>
#include <vector>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::reshape {

namespace {

constexpr Index kMostRanks = 1 << 20;
constexpr Index kMostLayers = 1 << 20;
constexpr std::string_view kLike = "like:";

/// What an option of a form may be: a number from 1 on, one of some words, or text.
struct FormOption {
    std::string_view name;
    Index Destination::*number = nullptr;
    Index ParallelSizes::*size = nullptr;
    bool Destination::*choice = nullptr;
    std::vector<std::string_view> words = {};  ///< the usual one first; a choice has two
    std::string Destination::*word = nullptr;
};

const FormOption kSpec = {"spec", nullptr, nullptr, &Destination::has_local_names, {"te", "local"}};
const FormOption kExperts = {
    "experts", nullptr, nullptr, &Destination::has_single_experts, {"grouped", "sequential"}};
const FormOption kWorld = {"world", &Destination::world};

struct FormRow {
    std::string_view name;
    Form form = Form::hf;
    std::vector<FormOption> options;
};

const std::vector<FormRow>& forms() {
    static const std::vector<FormRow> rows = {
        {"hf", Form::hf, {}},
        {"torch_dist",
         Form::torch_dist,
         {{"era", nullptr, nullptr, &Destination::has_common_object, {"018", "019"}},
          kSpec,
          {"layers", nullptr, nullptr, &Destination::has_separate_layers, {"stacked", "separate"}},
          kExperts}},
        {"legacy",
         Form::legacy,
         {{"tp", nullptr, &ParallelSizes::tp},
          {"pp", nullptr, &ParallelSizes::pp},
          {"vpp", nullptr, &ParallelSizes::vpp},
          {"ep", nullptr, &ParallelSizes::ep},
          {"etp", nullptr, &ParallelSizes::etp},
          {"first", nullptr, &ParallelSizes::first},
          {"last", nullptr, &ParallelSizes::last},
          {"layout"},
          kSpec,
          kExperts}},
        {"fsdp",
         Form::fsdp,
         {kWorld,
          {"ddp", &Destination::ddp},
          {"device", nullptr, nullptr, nullptr, {"cuda", "cpu", "npu"}, &Destination::device},
          {"torch", nullptr, nullptr, &Destination::has_rank_meshes, {"2.15", "2.8"}}}},
        {"dcp", Form::dcp, {kWorld}},
        {"universal", Form::universal, {}},
        {"same", Form::same, {}},
    };
    return rows;
}

/// "dcp takes world=", "fsdp takes world=, ddp=, device=cuda|cpu|npu, ...".
std::string allowed(const FormRow& row) {
    if (row.options.empty()) {
        return "give " + std::string(row.name) + " alone";
    }
    return std::string(row.name) + " takes " +
           joined(row.options, ", ",
                  [](const FormOption& o) {
                      return std::string(o.name) + "=" + joined(o.words, "|");
                  }) +
           (row.form == Form::torch_dist ? "; it is loaded at any tp, pp and ep" : "");
}

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::usage, "--to " + what, hint);
}

const FormRow& form_named(std::string_view name) {
    const auto found = std::ranges::find(forms(), name, &FormRow::name);
    if (found != forms().end()) {
        return *found;
    }
    refuse(printable(name) + " is no form of a checkpoint",
           "give one of " + joined(forms(), ", ", [](const FormRow& row) { return row.name; }));
}

/// "tp=8,layout=E,t|L" as options: what has no '=' belongs to the layout before it.
std::vector<std::string> options_in(std::string_view text) {
    std::vector<std::string> options;
    for (const std::string_view part : split(text, ',')) {
        const bool is_new = has_part(part, '=');
        if (!is_new && !options.empty() && options.back().starts_with("layout=")) {
            options.back().append(",").append(part);
        } else {
            options.emplace_back(part);
        }
    }
    return options;
}

/// Which of an option's words `value` is.
std::size_t word_of(const FormOption& option, std::string_view value) {
    const auto found = std::ranges::find(option.words, value);
    if (found == option.words.end()) {
        refuse(std::string(option.name) + "=" + printable(value) + " is unknown",
               "give " + joined(option.words, " or ") + "; " + std::string(option.words[0]) +
                   " is the default");
    }
    return static_cast<std::size_t>(found - option.words.begin());
}

Index number_of(const FormOption& option, std::string_view value) {
    const Index most = option.name == "first" || option.name == "last" ? kMostLayers : kMostRanks;
    const auto number = parse_index(value);
    if (!number || *number < 1 || *number > most) {
        refuse(std::string(option.name) + "=" + printable(value) + " is no number in its range",
               "give one from 1 to " + std::to_string(most));
    }
    return *number;
}

void set_option(const FormRow& row, std::string_view given, Destination& destination) {
    const auto equals = given.find('=');
    const std::string_view name = given.substr(0, equals);
    auto* const found = find_item(row.options, name, &FormOption::name);
    if (found == nullptr || equals == std::string_view::npos) {
        refuse(std::string(row.name) + " has no option '" + printable(given) + "'", allowed(row));
    }
    const std::string_view value = given.substr(equals + 1);
    if (found->choice != nullptr) {
        destination.*found->choice = word_of(*found, value) != 0;
    } else if (found->word != nullptr) {
        destination.*found->word = found->words[word_of(*found, value)];
    } else if (found->number != nullptr) {
        destination.*found->number = number_of(*found, value);
    } else if (found->size != nullptr) {
        destination.sizes.*found->size = number_of(*found, value);
    } else {
        destination.sizes.layout = value;
    }
}

/// Error(usage) where options exclude each other whatever the model is.
void require_consistent(const Destination& to) {
    const ParallelSizes& sizes = to.sizes;
    if (to.world % to.ddp != 0) {
        refuse("fsdp: world=" + std::to_string(to.world) +
                   " is not a multiple of ddp=" + std::to_string(to.ddp),
               "ddp counts groups of as many ranks each");
    }
    if (sizes.tp % sizes.expert_tp() != 0) {
        refuse("legacy: etp=" + std::to_string(sizes.etp) +
                   " does not divide tp=" + std::to_string(sizes.tp),
               "such ranks would share file names; give an etp that divides tp");
    }
    if (sizes.pp == 1 && (sizes.vpp > 1 || sizes.first > 0 || sizes.last > 0)) {
        refuse("legacy: vpp, first and last are about several pipeline ranks, and pp is 1",
               "give pp too, or leave them out");
    }
    if (!sizes.layout.empty() && (sizes.first > 0 || sizes.last > 0)) {
        refuse("legacy: layout says where each layer is, and so do first and last",
               "give one or the other");
    }
}

}  // namespace

bool is_form(std::string_view name) {
    return std::ranges::count(forms(), name, &FormRow::name) > 0;
}

std::string template_in(std::string_view text) {
    return std::string(text.starts_with(kLike) ? text.substr(kLike.size()) : std::string_view());
}

Destination parse_destination(std::string_view text) {
    if (text.starts_with(kLike)) {
        Destination like;
        like.form = Form::like;
        like.model = template_in(text);
        if (like.model.empty()) {
            refuse("like names no checkpoint", "give one: --like DIR");
        }
        return like;
    }
    const auto colon = text.find(':');
    const FormRow& row = form_named(text.substr(0, colon));
    Destination destination;
    destination.form = row.form;
    std::vector<std::string> names;
    if (colon != std::string_view::npos) {
        for (const std::string& option : options_in(text.substr(colon + 1))) {
            set_option(row, option, destination);
            names.push_back(option.substr(0, option.find('=')));
        }
    }
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
        refuse(std::string(row.name) + ": " + *twice + " is given twice", "give it once");
    }
    if (row.form == Form::fsdp && !contains(names, "world")) {
        refuse("fsdp does not say for how many ranks", "give for example fsdp:world=8");
    }
    require_consistent(destination);
    return destination;
}

std::map<std::string, Index> facts_of(const Destination& destination) {
    if (destination.form != Form::legacy) {
        return {{"t", 1}, {"te", 1}, {"tp", 1}, {"version", 3}};
    }
    const ParallelSizes& sizes = destination.sizes;
    return {{"t", sizes.tp}, {"te", sizes.expert_tp()}, {"tp", sizes.tp}, {"version", 3}};
}

Index padded_vocab(Index vocab, Index tp, Index divisor) {
    const Index unit = checked_mul(divisor, tp, "the vocabulary's padding");
    return checked_mul(checked_add(vocab, unit - 1, "the vocabulary") / unit, unit,
                       "the vocabulary");
}

}  // namespace shardweld::reshape
