// The optimizer's states in one rank's legacy files, as they are scanned.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/process/stop_point.hpp"
#include "core/text.hpp"
#include "formats/shared/adam.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "legacy_optimizer.hpp"
#include "optimizer_state.hpp"

namespace shardweld::formats::megatron {

namespace {

std::string name_of(const StateSlot& slot) {
    return std::to_string(slot.first) + "." + std::to_string(slot.second);
}

/// Puts a tensor among those of its state. `name` is Megatron's of the state.
void keep(std::string_view name, const StoredTensor& stored, const StateSlot& slot,
          TakenState taken, Catalogue& out) {
    Tensor tensor;
    tensor.name = name_of(slot);
    tensor.dtype = stored.dtype;
    tensor.shape = stored.shape;
    tensor.pieces.push_back(piece_of(stored));
    State* const state = state_taken(known_state(name, name, taken), taken, out.optimizer);
    if (state != nullptr) {
        state->tensors.push_back(std::move(tensor));
    }
}

/// An optimizer, or the several of a chain, of which some ranks keep nothing.
std::vector<const PickleValue*> chain_of(const PickleValue& value) {
    const auto elements = value.elements();
    return elements.empty() ? std::vector<const PickleValue*>{&value}
                            : std::vector<const PickleValue*>(elements.begin(), elements.end());
}

/// Reads the states that torch's optimizers number.
class NumberedStates {
  public:
    NumberedStates(const TorchFile& file, const ScalarReader& scalars, TakenState taken,
                   Catalogue& out)
        : file_(file), scalars_(scalars), taken_(taken), out_(out) {
        if (out.optimizer.step) {
            steps_.add(real_text(*out.optimizer.step), "the optimizer's groups");
        }
    }

    void add(const PickleValue& one) {
        const PickleValue* const wrapped = one.find("optimizer");
        const PickleValue& inner = wrapped == nullptr ? one : *wrapped;
        const PickleValue* const state = inner.find("state");
        const PickleValue* const groups = inner.find("param_groups");
        if (state == nullptr || !state->is_mapping() || groups == nullptr) {
            return;
        }
        const Members members = members_in(*groups);
        require_members(*state, members);
        common_step_ = state->find("common_step");
        by_number_.clear();
        for (const auto& [key, value] : state->pairs()) {
            if (const auto number = parse_index(member_text(key))) {  // also "0"
                by_number_.emplace(*number, &value);
            }
        }
        const PickleValue* const masters = one.find("fp32_from_fp16_params");
        for (std::size_t g = 0; g < groups->elements().size(); ++g, ++group_) {
            const PickleValue* const numbers = groups->elements()[g]->find("params");
            for (std::size_t i = 0; numbers != nullptr && i < numbers->elements().size(); ++i) {
                const StateSlot slot{group_, static_cast<Index>(i)};
                if (masters != nullptr && g < masters->elements().size() &&
                    i < masters->elements()[g]->elements().size()) {
                    add("param", *masters->elements()[g]->elements()[i], slot);
                }
                add_moments(*groups->elements()[g], *numbers->elements()[i], slot);
            }
        }
    }

    bool finish() {
        out_.optimizer.step = steps_.step();
        return n_read_ > 0;
    }

  private:
    void add(std::string_view name, const PickleValue& value, const StateSlot& slot) {
        StoredTensor stored;
        if (file_.read_tensor(value, stored)) {
            keep(name, stored, slot, taken_, out_);
            ++n_read_;
        } else {
            require_no_state(name, value, taken_, "parameter " + name_of(slot));
        }
    }

    void add_moments(const PickleValue& group, const PickleValue& number, const StateSlot& slot) {
        auto* const found = find_value(by_number_, number.integer);
        const PickleValue* const moments = found == nullptr ? nullptr : *found;
        stop_point();
        if (moments == nullptr) {
            return;
        }
        const std::string place = "parameter " + std::to_string(number.integer);
        if (!moments->is_mapping() && taken_ == TakenState::all) {
            refuse_state("the states of " + place, *moments);
        }
        for (const auto& [key, value] : moments->pairs()) {
            if (key.text() != "step") {
                add(key.text(), value, slot);
            }
        }
        if (!steps_.add(moments->find("step"), scalars_, place) &&
            !steps_.add(group.find("step"), scalars_, "its group") &&
            !steps_.add(common_step_, scalars_, "common_step")) {
            require_step(place, taken_ != TakenState::all || moments->pair_count() == 0);
        }
    }

    const TorchFile& file_;
    const ScalarReader& scalars_;
    TakenState taken_;
    Catalogue& out_;
    Index group_ = 0;                                       ///< over all optimizers
    std::map<std::int64_t, const PickleValue*> by_number_;  ///< states of the optimizer under way
    const PickleValue* common_step_ = nullptr;              ///< of that optimizer
    std::size_t n_read_ = 0;
    StepClaims steps_;
};

[[noreturn]] void refuse_form(const std::string& why) {
    throw Error(ErrorCode::unsupported, "the optimizer's states " + why, kWeightsOnly);
}

/// The states of one buffer: {types: {name: vector}}.
void add_buffer(const TorchFile& file, const PickleValue& buffer, const StateSlot& slot,
                TakenState taken, Catalogue& out) {
    if (!buffer.is_mapping() || buffer.pair_count() != 1 || !buffer.value(0).is_mapping()) {
        refuse_form("in buffer " + std::to_string(slot.second) +
                    " are not those of parameters of one type");
    }
    const PickleValue& states = buffer.value(0);
    for (const auto& [key, value] : states.pairs()) {
        StoredTensor stored;
        if (file.read_tensor(value, stored)) {
            if (stored.shape.size() != 1 || !stored.is_contiguous()) {
                refuse_form("in buffer " + std::to_string(slot.second) + " are no vectors");
            }
            keep(key.text(), stored, slot, taken, out);
        } else {
            require_no_state(key.text(), value, taken, "buffer " + name_of(slot));
        }
    }
}

void add_buffers(const TorchFile& file, TakenState taken, Catalogue& out) {
    const auto chain = chain_of(file.root());
    const bool is_chain = chain.front() != &file.root();
    if (chain.size() > 2) {
        refuse_form("are of " + std::to_string(chain.size()) +
                    " optimizers, which are none of dense and expert parameters");
    }
    for (const std::size_t o : indices(chain)) {
        if (!chain[o]->is_mapping()) {
            continue;  // another rank keeps it
        }
        if (chain[o]->find("buckets_coalesced") == nullptr) {
            refuse_form("are not kept with buckets_coalesced, as Megatron keeps them since 2024");
        }
        for (const auto& [number, buffer] : chain[o]->pairs()) {
            if (number.kind == PickleKind::integer && number.integer >= 0) {
                // The only optimizer has the parameters of both kinds.
                add_buffer(file, buffer, {is_chain ? static_cast<Index>(o) : 2, number.integer},
                           taken, out);
            }
        }
    }
}

}  // namespace

bool add_numbered_states(const TorchFile& file, const ScalarReader& scalars, TakenState taken,
                         Catalogue& out) {
    add_optimizer(file.root(), scalars, out.optimizer);
    const PickleValue* const optimizer = file.root().find("optimizer");
    if (optimizer == nullptr) {
        return false;
    }
    NumberedStates states(file, scalars, taken, out);
    for (const PickleValue* const one : chain_of(*optimizer)) {
        states.add(*one);
    }
    return states.finish();
}

void add_distributed_states(const Location& location, const std::string& model_file,
                            Catalogue& out) {
    const std::string file =
        (fs::path(model_file).parent_path() / kDistributedOptimizerFile).string();
    if (out.optimizer.groups.empty()) {
        return;
    }
    if (!io::is_file(location.directory / file)) {
        throw Error(ErrorCode::not_found,
                    printable(file) +
                        " is not there, in which the rank's optimizer keeps its "
                        "states",
                    kCopyAll + std::string(", or ") + kWeightsOnly);
    }
    Catalogue beside =
        scan_torch_file(location, file, [&](const TorchFile& torch_file, Catalogue& told) {
            add_buffers(torch_file, location.state, told);
        });
    const auto at = static_cast<std::uint32_t>(out.files.size());
    catalogue::each_tensor(beside, [&](Tensor& tensor) { tensor.pieces.front().file = at; });
    out.optimizer.states = std::move(beside.optimizer.states);
    append_all(out.files, std::move(beside.files));
    append_all(out.ignored, std::move(beside.ignored));
    take_said(beside, out);
}

}  // namespace shardweld::formats::megatron
