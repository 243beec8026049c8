#include <algorithm>
#include <span>

#include "core/text.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/file_scan.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "optimizer_scan.hpp"
#include "pickled.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

using catalogue::Catalogue;

constexpr const char* kPartitions = "single_partition_of_fp32_groups";
constexpr const char* kFlatGroups = "fp32_flat_groups";
constexpr Index kPartitionedWeights = 3;

// Collects one file.
class PartitionScan {
  public:
    PartitionScan(const ScannedFile& in, TakenState taken) : in_(in), taken_(taken) {}

    void add(const PickleValue& root) {
        const PickleValue* const state = present(root, "optimizer_state_dict");
        const PickleValue* const partitions = state ? present(*state, kPartitions) : nullptr;
        const PickleValue* const groups = state ? present(*state, kFlatGroups) : nullptr;
        if (partitions == nullptr && groups == nullptr) {
            throw Error(ErrorCode::unsupported,
                        std::string("holds no flat fp32 weights (") + kPartitions + " or " +
                            kFlatGroups + ")",
                        "take the model's own weights with --weights model");
        }
        add_stage(*state, groups != nullptr);
        add_flat(groups != nullptr ? *groups : *partitions);
        add_counts(*state);
        if (groups == nullptr) {
            add_gaps(*state);
            add_ends();
        }
        add_step(*state);
        if (taken_ != TakenState::weights) {
            add_optimizer(*state, taken_, in_);
        }
        Bytes flat = 0;
        catalogue::each_shard(in_.out, [&](const catalogue::Shard& shard) {
            flat += to_bytes(shard.shape.front(), "elements") * size_of(shard.dtype);
        });
        const Bytes all = in_.file.storage_bytes();
        in_.out.ignored.push_back({"*", "optimizer state", 1, all > flat ? all - flat : 0});
    }

  private:
    void add_stage(const PickleValue& state, bool is_partitioned) {
        const auto stage = stated_integer(present(state, "zero_stage"), in_.scalars, "zero_stage");
        if (!stage) {
            return;
        }
        if ((*stage == kPartitionedWeights) != is_partitioned) {
            throw Error(ErrorCode::mismatch,
                        "says that it is of ZeRO stage " + std::to_string(*stage) + " but holds " +
                            (is_partitioned ? kFlatGroups : kPartitions) + ", which is stage " +
                            (is_partitioned ? "3's" : "1's and 2's"),
                        "copy it again from where it was saved");
        }
        in_.content.stage = stage;
    }

    void add_flat(const PickleValue& groups) {
        std::size_t number = 0;
        for (const PickleValue* const group : groups.elements()) {
            in_.out.shards.push_back(
                flat_shard(in_, *group, "flat group " + std::to_string(number++)));
        }
        in_.content.groups.resize(number);
    }

    // A list over groups; one number for all in ZeRO-3.
    void add_counts(const PickleValue& state) {
        const PickleValue* const counts = present(state, "partition_count");
        if (counts == nullptr) {
            return;
        }
        const auto of_groups = counts->is_list() ? counts->elements() : std::span(&counts, 1);
        for (std::size_t group = 0; group < std::min(of_groups.size(), in_.out.shards.size());
             ++group) {
            in_.content.groups[group].n_ranks =
                stated_integer(of_groups[group], in_.scalars, "partition_count");
        }
    }

    void add_gaps(const PickleValue& state) {
        const PickleValue* const groups = present(state, "param_alignment_paddings");
        const auto lists =
            groups == nullptr ? std::span<const PickleValue* const>() : groups->elements();
        for (std::size_t group = 0; group < std::min(lists.size(), in_.out.shards.size());
             ++group) {
            const auto gaps = lists[group]->elements();
            for (std::size_t i = 0; i < gaps.size(); ++i) {
                if (const Index gap = read_count(*gaps[i], "an alignment padding"); gap > 0) {
                    in_.content.groups[group].gaps[i] = gap;
                }
            }
        }
    }

    // What follows the parameters is padding, which is zero and stays so in training. Where they
    // end is not known here.
    void add_ends() {
        for (std::size_t group = 0; group < in_.out.shards.size(); ++group) {
            const catalogue::Shard& shard = in_.out.shards[group];
            const Index ranks = in_.content.groups[group].n_ranks.value_or(1);
            const Index length = shard.shape.front();
            const Index padding = std::min(length, most_padding(ranks));
            in_.content.groups[group].end = end_of(shard, length - padding, padding);
        }
    }

    // One past the last of these elements that is not zero, or `begin`.
    Index end_of(const catalogue::Shard& shard, Index begin, Index count) {
        const Bytes element = size_of(shard.dtype);
        std::vector<std::byte> bytes = elements_of(in_, shard, begin, count);
        while (!bytes.empty() && bytes.back() == std::byte{0}) {
            bytes.pop_back();
        }
        return begin + to_index((bytes.size() + element - 1) / element, "padding");
    }

    /// How often the optimizer has stepped: files of one save agree on it.
    void add_step(const PickleValue& state) {
        for (const char* const name : {"base_optimizer_state", "optimizer_state_dict"}) {
            if (const PickleValue* const base = present(state, name)) {
                if (const std::string step = step_of(*base); !step.empty()) {
                    in_.out.statements.push_back(
                        {in_.out.files.front().path, "its optimizer", {}, {}, true});
                    in_.out.statements.back().save["optimizer steps"] = step;
                }
            }
        }
    }

    // torch's and DeepSpeed's optimizers have it in the state of a parameter, as a number or a
    // tensor, or in that of a group.
    std::string step_of(const PickleValue& base) {
        std::vector<const PickleValue*> places;
        if (base.kind == PickleKind::list && !base.elements().empty()) {
            places.push_back(base.elements().front());
        }
        if (const PickleValue* const states = present(base, "state");
            states != nullptr && states->is_mapping() && states->pair_count() > 0) {
            places.push_back(&states->value(0));
        }
        if (const PickleValue* const groups = present(base, "param_groups");
            groups != nullptr && !groups->elements().empty()) {
            places.push_back(groups->elements().front());
        }
        for (const PickleValue* const place : places) {
            const PickleValue* const step = present(*place, "step");
            if (const auto number = step == nullptr ? std::nullopt : in_.scalars.text_of(*step)) {
                return *number;
            }
        }
        return "";
    }

    const ScannedFile& in_;
    TakenState taken_;
};

}  // namespace

FileScan scan_partition(const Location& location, const std::string& file, const FileName& name) {
    return scan_named(location, file, name, [&](const ScannedFile& opened) {
        PartitionScan(opened, location.state).add(opened.file.root());
    });
}

namespace {

catalogue::FileAssertion::Values claims_of(const FileName& said) {
    catalogue::FileAssertion::Values claims = {{"data rank", std::to_string(said.dp)},
                                               {"model rank", std::to_string(said.mp)}};
    switch (said.kind) {
        case ZeroFile::layer:
            claims["layer"] = std::to_string(said.number);
            break;
        case ZeroFile::expert:
            claims["layer"] = std::to_string(said.layer);
            claims["expert"] = std::to_string(said.number);
            break;
        case ZeroFile::model:
        case ZeroFile::model_part:
            claims["content"] = "model states";
            break;
        default:
            claims["content"] = "optimizer states";
    }
    return claims;
}

}  // namespace

FileScan scan_named(const Location& location, const std::string& file, const FileName& name,
                    const std::function<void(const ScannedFile&)>& add) {
    const auto input = io::InputFile::open(location.directory / file);
    FileScan scan;
    const auto add_file = [&](const TorchFile& torch_file, Catalogue& out) {
        if (!torch_file.root().is_mapping()) {
            throw Error(ErrorCode::corrupt,
                        "holds no dictionary but " + describe(torch_file.root()));
        }
        add({torch_file, input, name, ScalarReader(torch_file, input), scan.own, out});
        out.statements.push_back({file, "its name", claims_of(name), {}, false});
        if (const auto inner = parse_file_name(torch_file.archive_name() + ".pt")) {
            out.statements.push_back(
                {file, "the name of the archive in it", claims_of(*inner), {}, true});
        }
    };
    scan.told = scan_torch_file(input, location, file, add_file);
    return scan;
}

}  // namespace shardweld::formats::deepspeed
