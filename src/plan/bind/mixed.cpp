#include "mixed.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/names/natural_order.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

namespace {

constexpr const char* kOneModel = "give checkpoints of one model, saved with one vocabulary";

using ByName = std::map<std::string, const Target*>;

ByName by_name(const MixInput& input) {
    ByName targets;
    for (const Target& target : input.binding.targets) {
        targets.emplace(target.name, &target);
    }
    return targets;
}

std::string kind_of(const Target& target) {
    return torch_name(target.stored) + " " + shape_text(target.shape);
}

/// Names that one has and the other lacks.
void require_names(const MixInput& has, const MixInput& lacks) {
    const ByName known = by_name(lacks);
    std::vector<std::string> names = collect_list(
        has.binding.targets, [](const Target& target) { return printable(target.name.text()); },
        [&](const Target& target) { return !known.contains(target.name); });
    if (!names.empty()) {
        throw Error(ErrorCode::mismatch,
                    counted(names.size(), "tensor") + " of " + has.name + " " +
                        (names.size() == 1 ? "is" : "are") + " not in " + lacks.name + ": " +
                        listed(names),
                    kOneModel);
    }
}

/// Tensors of one name are of one shape, and both of them floats or of the same other type.
void require_alike(const MixInput& lead, const MixInput& other) {
    const ByName known = by_name(lead);
    std::vector<std::string> texts;
    for (const Target& target : other.binding.targets) {
        const Target& first = *known.at(target.name);
        const bool are_floats = is_float(first.stored) && is_float(target.stored);
        if (first.shape != target.shape || !(are_floats || first.stored == target.stored)) {
            texts.push_back(printable(target.name.text()) + " is " + kind_of(first) + " in " +
                            lead.name + " and " + kind_of(target) + " in " + other.name);
        }
    }
    if (!texts.empty()) {
        throw Error(ErrorCode::mismatch, listed(texts), kOneModel);
    }
}

/// Floats of 8 bits are multiples of scales that lie elsewhere.
void require_addable(const MixInput& input) {
    for (const Target& target : input.binding.targets) {
        if (is_float(target.stored) && size_of(target.stored) == 1) {
            throw Error(ErrorCode::unsupported,
                        printable(target.name.text()) + " in " + input.name + " is " +
                            torch_name(target.stored) + ": quantised weights cannot be added up",
                        "give the checkpoints in bf16, fp16 or fp32");
        }
        if (target.fold || !target.file.empty()) {
            throw Error(ErrorCode::unsupported,
                        "a LoRA adapter in " + input.name + " cannot be added up",
                        "fold it first: merge that checkpoint alone with --lora fold");
        }
    }
}

/// Puts the operands of a input's target behind the others', as those of its term.
void append(std::vector<Operand>& all, SharedList<Operand>& more, std::size_t term) {
    for (const Operand& operand : std::exchange(more, {})) {
        all.push_back(operand);
        all.back().term = static_cast<std::uint32_t>(term);
    }
}

/// The target whose own elements are those of `parts[lead]`, as a mix of all.
Target mix(const std::vector<Target*>& parts, const std::vector<MixInput>& inputs, MixKind kind,
           std::size_t lead) {
    Mix terms{kind, {}};
    std::vector<Operand> operands;
    std::vector<Operand> replicas;
    for (const std::size_t term : indices(parts)) {
        Target& part = *parts[term];
        terms.terms.push_back({part.stored, part.add, inputs[term].weight});
        append(operands, part.operands, term);
        append(replicas, part.replicas, term);
    }
    Target mixed = std::move(*parts[lead]);
    mixed.operands = std::move(operands);
    mixed.replicas = std::move(replicas);
    mixed.add = 0;
    mixed.mix = std::move(terms);
    return mixed;
}

/// The lead's target; the others' elements become copies that are to be compared with it, and so do
/// their own replicas.
Target equal(const std::vector<Target*>& parts, std::size_t lead, std::vector<Operand>& copies,
             Ledger& ledger) {
    Target one = std::move(*parts[lead]);
    for (const std::size_t term : indices(parts)) {
        if (term != lead) {
            const Bytes bytes = source_bytes(*parts[term]);
            ledger.consumed -= bytes;
            ledger.replica += bytes;
            append(copies, parts[term]->operands, 0);
            append(copies, parts[term]->replicas, 0);
        }
    }
    return one;
}

/// Gives a input the tensors that it ties and another one has: a tied model's head is its
/// embedding.
void untie(MixInput& input, const std::set<std::string>& of_any) {
    std::vector<Target>& targets = input.binding.targets;
    const ByName own = by_name(input);
    std::vector<Target> copies;
    for (const auto& [copy, original] : input.tied) {
        auto* const at = find_value(own, original);
        if (of_any.contains(copy) && !own.contains(copy) && at != nullptr) {
            copies.push_back(**at);
            copies.back().name = copy;
            input.binding.warnings.push_back({"untied", copy,
                                              copy + " is not stored: it is " + original +
                                                  ", as the model ties "
                                                  "them; the mix has both"});
        }
    }
    append_all(targets, std::move(copies));
    sort_naturally(targets, &Target::name);
}

void untie_all(std::vector<MixInput>& inputs) {
    std::set<std::string> names;
    for (const MixInput& input : inputs) {
        for (const Target& target : input.binding.targets) {
            names.insert(target.name);
        }
    }
    for (MixInput& input : inputs) {
        untie(input, names);
    }
}

void require_one_model(const std::vector<MixInput>& inputs, std::size_t lead) {
    for (const MixInput& input : inputs) {
        if (&input != &inputs[lead]) {
            require_names(inputs[lead], input);
            require_names(input, inputs[lead]);
            require_alike(inputs[lead], input);
        }
        require_addable(input);
    }
}

}  // namespace

Binding mixed(std::vector<MixInput> inputs, MixKind kind, std::size_t lead) {
    untie_all(inputs);
    require_one_model(inputs, lead);
    Binding all;
    all.logicals = inputs[lead].binding.logicals;
    all.n_predictions = inputs[lead].binding.n_predictions;
    for (MixInput& input : inputs) {
        all.ledger.add(input.binding.ledger);
        for (Warning& warning : input.binding.warnings) {
            warning.text = input.name + ": " + warning.text;
            all.warnings.push_back(std::move(warning));
        }
    }
    // All have the same names, in the same order.
    for (const std::size_t i : indices(inputs[lead].binding.targets)) {
        std::vector<Target*> parts =
            collect_list(inputs, [&](MixInput& input) { return &input.binding.targets[i]; });
        if (is_float(parts[lead]->stored)) {
            all.targets.push_back(mix(parts, inputs, kind, lead));
            continue;
        }
        std::vector<Operand> copies;
        Target one = equal(parts, lead, copies, all.ledger);
        all.same.push_back({one.name, all.targets.size(), one.replicas.size(), copies.size(),
                            SamePair::Why::averaged});
        one.replicas.append(std::move(copies));
        all.targets.push_back(std::move(one));
    }
    return all;
}

}  // namespace shardweld::plan
