#include "legacy.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "layout/patch.hpp"
#include "models/symbols.hpp"
#include "shardweld/error.hpp"

#include "common_state.hpp"
#include "pipeline.hpp"
#include "rank_files.hpp"

namespace shardweld::reshape {

namespace {

using models::Captures;
using models::JoinStep;
using models::Line;
using plan::TensorPiece;

/// Where in the pipeline a logical tensor is.
enum class PipelinePlace {
    layer,
    mtp,
    embedding,   ///< and again where MTP layers are, which look tokens up themselves
    front,       ///< towers and what else comes before the first layer
    last_layer,  ///< norms behind the last layer, which go with it where there are MTP layers
    head
};

constexpr std::array<std::pair<std::string_view, PipelinePlace>, 21> kHomes = {{
    {"layer.", PipelinePlace::layer},       {"mtp.", PipelinePlace::mtp},
    {"mtp_inner.", PipelinePlace::mtp},     {"embed_ple", PipelinePlace::front},
    {"embed", PipelinePlace::embedding},    {"ple_", PipelinePlace::front},
    {"vision.", PipelinePlace::front},      {"merger.", PipelinePlace::front},
    {"deepstack.", PipelinePlace::front},   {"sound.", PipelinePlace::front},
    {"visual.", PipelinePlace::front},      {"vision_", PipelinePlace::front},
    {"audio_", PipelinePlace::front},       {"patches", PipelinePlace::front},
    {"frames", PipelinePlace::front},       {"projector", PipelinePlace::front},
    {"norm", PipelinePlace::last_layer},    {"out_res", PipelinePlace::last_layer},
    {"hc_head", PipelinePlace::last_layer}, {"head", PipelinePlace::head},
    {"score", PipelinePlace::head},
}};

/// Captures that count experts.
constexpr std::array<std::string_view, 2> kExpertCaptures = {"e", "ev"};

std::optional<PipelinePlace> home_of(const Line& line) {
    if (line.logical.empty()) {
        return PipelinePlace::front;  // what passes as it is stored is a tower's
    }
    auto* const found =
        find_where(kHomes, [&](const auto& row) { return line.logical.starts_with(row.first); });
    return found == nullptr ? std::nullopt : std::optional(found->second);
}

bool is_tower(const Line& line) {
    return home_of(line) == PipelinePlace::front;
}

/// What is stored of a tensor in one stage.
struct StageTensor {
    const Stage* stage = nullptr;
    std::string name;
};

class LegacyPieces {
  public:
    LegacyPieces(const Destination& destination, models::Symbols symbols, Pipeline pipeline)
        : has_local_names_(destination.has_local_names),
          sizes_(destination.sizes),
          symbols_(std::move(symbols)),
          pipeline_(std::move(pipeline)),
          pairs_(rank_pairs(sizes_)) {
        for (Index pp = 0; pp < sizes_.pp; ++pp) {
            for (const RankPair& pair : pairs_) {
                files_.emplace_back(rank_file(sizes_, pp, pair));
            }
        }
    }

    std::vector<TensorPiece> operator()(const Line& line, const Captures& captures,
                                        const std::vector<Index>& shape) const {
        Captures local = captures;
        const auto ep = take_expert(line, local);
        std::vector<layout::Box> boxes;  // by tensor-parallel rank, of which hundreds have one
        for (Index tp = 0; tp < sizes_.tp; ++tp) {
            boxes.push_back(box_of(line, tp, shape));
        }
        std::vector<TensorPiece> pieces;
        std::vector<layout::Box> held;
        for (const StageTensor& at : stages_of(line, local)) {
            const SharedList<SharedText> path = {model_key(*at.stage), at.name};
            const std::size_t first_file = static_cast<std::size_t>(at.stage->rank) * pairs_.size();
            for (const std::size_t i : indices(pairs_)) {
                const RankPair& pair = pairs_[i];
                if (ep && pair.ep != *ep) {
                    continue;
                }
                TensorPiece piece;
                piece.file = files_[first_file + i];
                piece.path = path;
                piece.box = boxes[as_size(pair.tp)];
                piece.is_copy = contains(held, piece.box);
                if (!piece.is_copy) {
                    held.push_back(piece.box);
                }
                pieces.push_back(std::move(piece));
            }
        }
        return pieces;
    }

  private:
    [[nodiscard]] std::string model_key(const Stage& stage) const {
        return pipeline_.back().chunk == 0 ? "model" : "model" + std::to_string(stage.chunk);
    }

    /// The expert-parallel rank whose files have the tensor; nullopt: of no expert. Experts are
    /// spread over ranks, which number their own from 0.
    std::optional<Index> take_expert(const Line& line, Captures& captures) const {
        std::optional<Index> ep;
        for (const std::string& name : line.name.captures) {
            if (contains(kExpertCaptures, name)) {
                Captures others = captures;
                others.erase(name);  // alone it stands for their number
                const Index local = symbols_.value(name, others) / sizes_.ep;
                Index& expert = captures.at(name);
                ep = expert / local;
                expert %= local;
            }
        }
        return ep;
    }

    [[nodiscard]] const Stage& stage_of_layer(Index layer) const {
        const auto found = std::ranges::find_if(pipeline_, [&](const Stage& stage) {
            return stage.first <= layer && layer < stage.first + stage.count;
        });
        if (found == pipeline_.end()) {
            throw Error(ErrorCode::internal, "no stage has layer " + std::to_string(layer));
        }
        return *found;
    }

    [[nodiscard]] const Stage& stage_with(bool Stage::*part) const {
        return *std::ranges::find(pipeline_, true, part);
    }

    /// The stage of the last layer; with no MTP layers behind it that of the head has its norm.
    [[nodiscard]] const Stage& stage_of_norm() const {
        const bool has_mtp = std::ranges::find(pipeline_, true, &Stage::has_mtp) != pipeline_.end();
        const Stage& last = pipeline_.back();
        return has_mtp ? stage_of_layer(last.first + last.count - 1) : last;
    }

    std::vector<StageTensor> stages_of(const Line& line, Captures& captures) const {
        const auto home = home_of(line);
        if (pipeline_.size() == 1) {
            return {{&pipeline_.front(), name_of(line, captures, symbols_)}};
        }
        if (!home) {
            throw Error(ErrorCode::unsupported,
                        line.name.text + ": Megatron's pipeline stage of it is not known",
                        "write with pp=1")
                .set_detail(line.origin);
        }
        return home == PipelinePlace::embedding ? embeddings(line, captures)
                                                : std::vector{in_one_stage(line, *home, captures)};
    }

    [[nodiscard]] StageTensor in_one_stage(const Line& line, PipelinePlace home,
                                           Captures& captures) const {
        const Stage* stage = &pipeline_.front();
        switch (home) {
            case PipelinePlace::layer:
                stage = &stage_of_layer(captures.at("l"));
                // What stands beside the decoder, as indexers do, has the layer's number in the
                // model.
                captures["l"] -= !has_part(line.name.text, "layers.{") ? 0 : stage->first;
                break;
            case PipelinePlace::mtp:
                stage = &stage_with(&Stage::has_mtp);
                break;
            case PipelinePlace::last_layer:
                stage = &stage_of_norm();
                if (captures.contains("o")) {
                    captures["o"] -= stage->first;  // its name has the last layer's number
                }
                break;
            case PipelinePlace::head:
                stage = &stage_with(&Stage::has_head);
                break;
            case PipelinePlace::embedding:
            case PipelinePlace::front:
                break;
        }
        return {stage, name_of(line, captures, symbols_)};
    }

    /// The first stage's, one for MTP layers elsewhere, and the output layer of a model that has no
    /// weight of its own for it.
    [[nodiscard]] std::vector<StageTensor> embeddings(const Line& line,
                                                      const Captures& captures) const {
        const std::string name = name_of(line, captures, symbols_);
        const std::string end = "embedding.word_embeddings.weight";
        const bool is_shared = name.ends_with(end) && is_tied();
        std::vector<StageTensor> all;
        for (const Stage& stage : pipeline_) {
            if (stage.has_embedding || stage.has_mtp) {
                all.push_back({&stage, name});
            }
            if (is_shared && stage.has_head && !stage.has_embedding) {
                const std::string before = name.substr(0, name.size() - end.size());
                all.push_back({&stage, before + "output_layer.weight"});
            }
        }
        return all;
    }

    [[nodiscard]] bool is_tied() const {
        return symbols_.try_value("tied").value_or(0) != 0 &&
               symbols_.try_value("value").value_or(0) == 0;
    }

    /// `k?` is cut where the layers are megatron-core's own: Transformer Engine's repeat down
    /// projections of latent attention on every rank, as do heads of a few labels.
    [[nodiscard]] bool is_cut(const Line& line, const JoinStep& step) const {
        const bool is_latent = line.logical.ends_with(".qkv_a");
        return !step.or_replica || is_tower(line) || (is_latent && has_local_names_);
    }

    [[nodiscard]] layout::Box box_of(const Line& line, Index tp,
                                     const std::vector<Index>& shape) const {
        layout::Box box = layout::whole_box(shape);
        static const models::Join whole;
        const models::Join& join = line.join ? *line.join : whole;
        for (const JoinStep& step : join.steps) {
            const bool is_expert = step.group == JoinStep::Group::etp;
            const bool is_known = is_expert || step.group == JoinStep::Group::tp;
            const bool is_there = static_cast<std::size_t>(step.dim) < box.size();
            if (join.flat || step.stack || !is_known || !is_there) {
                throw Error(ErrorCode::unsupported, line.name.text + " is not written",
                            "write the experts one by one, with experts=grouped or sequential")
                    .set_detail(line.origin);
            }
            if (is_cut(line, step)) {
                const Index ranks = is_expert ? sizes_.expert_tp() : sizes_.tp;
                cut(line, box[static_cast<std::size_t>(step.dim)], tp % ranks, ranks);
            }
        }
        return box;
    }

    static void cut(const Line& line, layout::Range& range, Index rank, Index ranks) {
        if (range.extent % ranks != 0) {
            throw Error(ErrorCode::mismatch,
                        line.name.text + " has " + std::to_string(range.extent) +
                            " rows or columns to spread, which " + std::to_string(ranks) +
                            " ranks do not divide",
                        "give a tp that divides them")
                .set_detail(line.origin);
        }
        range.extent /= ranks;
        range.lo += rank * range.extent;
    }

    bool has_local_names_;
    ParallelSizes sizes_;
    models::Symbols symbols_;
    Pipeline pipeline_;
    std::vector<RankPair> pairs_;
    std::vector<SharedText> files_;  ///< of each pipeline rank, of its pairs
};

/// The field of config.json that a symbol's value is from.
std::string field_of(const models::Symbols& symbols, const std::string& symbol,
                     const std::string& usual) {
    const auto stated = symbols.fields_of(symbol).stated;
    return stated.size() == 1 ? *stated.begin() : usual;
}

std::string says(const models::Symbols& symbols, const std::string& symbol,
                 const std::string& usual, Index value) {
    return "config.json has " + field_of(symbols, symbol, usual) + " " + std::to_string(value);
}

/// As Megatron asks it.
void require_heads(const ParallelSizes& sizes, const models::Symbols& symbols) {
    const Index heads = symbols.try_value("n").value_or(0);
    const std::string tp = "tp=" + std::to_string(sizes.tp);
    if (heads % sizes.tp != 0) {
        throw Error(
            ErrorCode::mismatch,
            says(symbols, "n", "num_attention_heads", heads) + ", which " + tp + " does not divide",
            "give a tp that divides the heads");
    }
    const Index groups = symbols.try_value("g").value_or(0);
    if (groups > 0 && groups % sizes.tp != 0 && sizes.tp % groups != 0) {
        throw Error(ErrorCode::mismatch,
                    says(symbols, "g", "num_key_value_heads", groups) + ", of which " + tp +
                        " is neither a divisor nor a multiple",
                    "give another tp");
    }
}

void require_experts(const ParallelSizes& sizes, const models::Symbols& symbols) {
    bool has_experts = false;
    for (const std::string_view capture : kExpertCaptures) {
        const std::string name(capture);
        const Index experts = symbols.is_index(name) ? symbols.try_value(name).value_or(0) : 0;
        has_experts = has_experts || experts > 0;
        if (experts % sizes.ep != 0) {
            throw Error(ErrorCode::mismatch,
                        says(symbols, name, "num_experts", experts) +
                            ", which ep=" + std::to_string(sizes.ep) + " does not divide",
                        "give an ep that divides the experts");
        }
    }
    if (sizes.ep > 1 && !has_experts) {
        throw Error(
            ErrorCode::mismatch,
            "config.json has no experts, which ep=" + std::to_string(sizes.ep) + " would spread",
            "leave ep out");
    }
}

Depth depth_of(const models::Symbols& symbols) {
    const Index mtp = symbols.is_index("k") ? symbols.try_value("k").value_or(0) : 0;
    return {symbols.value("l"), mtp, field_of(symbols, "l", "num_hidden_layers")};
}

/// Names of files do not tell expert from pipeline ranks, nor how experts' tensors are cut: the
/// reader of legacy checkpoints looks for these where there are no `args`.
outputs::PlainValue stated(const ParallelSizes& sizes) {
    return dictionary({{"tensor_model_parallel_size", integer(sizes.tp)},
                       {"pipeline_model_parallel_size", integer(sizes.pp)},
                       {"expert_model_parallel_size", integer(sizes.ep)},
                       {"expert_tensor_parallel_size", integer(sizes.expert_tp())}});
}

outputs::TrainingSave save_of(const ParallelSizes& sizes, std::vector<PlacedTensor> placed) {
    outputs::TrainingSave save;
    add_tensors(std::move(placed), save);
    outputs::PlainValue state = state_of_release();
    state.entries.push_back({"parallel_sizes", stated(sizes)});
    for (Index pp = 0; pp < sizes.pp; ++pp) {
        for (const RankPair& pair : rank_pairs(sizes)) {
            save.beside[rank_file(sizes, pp, pair)] = state;
        }
    }
    save.side_files.push_back(release_tracker());
    return save;
}

}  // namespace

Arrangement legacy_arrangement(const Destination& destination, const models::Symbols& symbols) {
    const ParallelSizes& sizes = destination.sizes;
    require_heads(sizes, symbols);
    require_experts(sizes, symbols);
    Arrangement arrangement;
    arrangement.pieces = LegacyPieces(destination, symbols, pipeline_of(sizes, depth_of(symbols)));
    arrangement.save = [sizes](std::vector<PlacedTensor> placed,
                               const OptimizerToWrite* /*optimizer*/) {
        return save_of(sizes, std::move(placed));
    };
    return arrangement;
}

}  // namespace shardweld::reshape
