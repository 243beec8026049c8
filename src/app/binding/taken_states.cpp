#include "taken_states.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/path.hpp"
#include "core/text.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;
using catalogue::kMaster;
using catalogue::State;

/// fp32 weights are their own masters: the save has no others. They are taken out.
State masters_of(Catalogue& whole) {
    State state{std::string(kMaster), std::move(whole.tensors), std::move(whole.shards), {}};
    for (catalogue::Tensor& tensor : state.tensors) {
        tensor.written_as.reset();
    }
    return state;
}

/// Files and directories that are called as an optimizer is, where the checkpoint was given or
/// beside it, as accelerate puts optimizer_0 beside pytorch_model_fsdp_0: none of them was read.
std::string unread_optimizers(const fs::path& given) {
    std::set<std::string> names;
    for (const fs::path& place : {given, given / ".."}) {
        const formats::Listing listing = formats::readable_listing(place);
        for (const auto* const some : {&listing.files, &listing.directories}) {
            std::ranges::copy_if(
                *some, std::inserter(names, names.end()), [](const std::string& name) {
                    return name.starts_with("optim") || name.starts_with("layer_wise_optimizer");
                });
        }
    }
    return names.empty() ? ""
                         : "; a file or directory of its own is not read: " +
                               listed(std::vector<std::string>(names.begin(), names.end()));
}

[[noreturn]] void refuse_lacking(const std::string& what, const Job& job) {
    throw Error(ErrorCode::not_found,
                "the checkpoint holds no " + what + unread_optimizers(job.inputs.front().directory),
                "give a save with its optimizer, or " + std::string(formats::kWeightsOnly));
}

}  // namespace

bool has_masters(const Catalogue& whole) {
    return contains(whole.optimizer.states, kMaster, &State::name);
}

std::vector<State> take_states(const Job& job, Catalogue& whole) {
    const bool has_own = has_masters(whole);
    std::vector<State> states = std::move(whole.optimizer.states);
    if (!has_own) {
        states.insert(states.begin(), masters_of(whole));
    }
    std::stable_partition(states.begin(), states.end(),
                          [](const State& one) { return one.name == kMaster; });
    if (job.inputs.front().state == formats::TakenState::master) {
        states.resize(1);
    } else if (states.size() < 3) {
        refuse_lacking("moments of an optimizer (exp_avg, exp_avg_sq)", job);
    }
    return states;
}

void refuse_stateless(const Job& job) {
    refuse_lacking("state of an optimizer that is read", job);
}

}  // namespace shardweld::app
