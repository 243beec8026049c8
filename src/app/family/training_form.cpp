#include "training_form.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <unordered_set>
#include <utility>

#include "catalogue/optimizer.hpp"
#include "formats/shared/hints.hpp"
#include "outputs/training.hpp"
#include "plan/bind/quantise.hpp"
#include "reshape/arrange.hpp"
#include "reshape/destination.hpp"
#include "reshape/placed.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// The numbers of the pieces that targets are.
std::unordered_set<std::uint32_t> pieces_of(const std::vector<plan::Target>& targets) {
    const auto numbers = collect_list(targets, &plan::Target::piece);
    return {numbers.begin(), numbers.end()};
}

}  // namespace

bool is_megatron(const reshape::Destination& to) {
    return to.form == reshape::Form::torch_dist || to.form == reshape::Form::legacy;
}

struct TrainingForm::State {
    reshape::Arrangement arrangement;
    std::vector<reshape::PlacedTensor> placed = {};  ///< as often as binding asked for it
    std::uint32_t n_pieces = 0;                      ///< of all of these
};

TrainingForm::TrainingForm(const reshape::Destination& to,
                           std::shared_ptr<const models::Symbols> written, Passing passing)
    : written_(std::move(written)),
      passing_(std::move(passing)),
      has_names_for_all_(!is_megatron(to)),
      state_(std::make_shared<State>(State{reshape::arrangement_of(to, *written_)})) {
    pieces_ = noted_pieces("");
}

plan::PiecesOf TrainingForm::noted_pieces(const std::string& state) const {
    return [all = state_, state](const models::Line& line, const models::Captures& captures,
                                 const std::vector<Index>& shape) {
        auto pieces = all->arrangement.pieces(line, captures, shape);
        if (pieces.empty()) {
            return pieces;
        }
        reshape::PlacedTensor placed{shape, {}, state, {}};
        if (pieces.front().stack > 0) {
            placed.whole.insert(placed.whole.begin(), pieces.front().stack);
        }
        if (!state.empty()) {
            placed.weight = pieces.front().path.back();
            for (plan::TensorPiece& piece : pieces) {
                all->arrangement.in_state(state, piece);
            }
        }
        for (plan::TensorPiece& piece : pieces) {
            piece.number = ++all->n_pieces;
        }
        placed.pieces = collect_list(pieces, [&](const plan::TensorPiece& piece) {
            return reshape::placed_piece(piece, all->arrangement.keeps_boxes);
        });
        all->placed.push_back(std::move(placed));
        return pieces;
    };
}

plan::PiecesOf TrainingForm::pieces(const std::string& state) const {
    if (state_ == nullptr || !state_->arrangement.in_state) {
        throw Error(
            ErrorCode::unsupported,
            "states of an optimizer are written to torch_dist, fsdp, dcp, universal and hf, "
            "not to this form",
            "write one of these, or " + std::string(formats::kWeightsOnly));
    }
    return noted_pieces(state);
}

std::vector<plan::Target> TrainingForm::steps(double step,
                                              const std::vector<plan::Target>& states) const {
    const auto written = pieces_of(states);
    std::vector<plan::Target> targets;
    if (state_ == nullptr || !state_->arrangement.step_beside) {
        return targets;
    }
    const auto value = static_cast<float>(step);
    if (static_cast<double>(value) != step) {
        throw Error(ErrorCode::unsupported,
                    "the optimizer's step is " + std::to_string(static_cast<Index>(step)) +
                        ", and this form has it as fp32, which holds no such number",
                    "write --to torch_dist or hf, or " + std::string(formats::kWeightsOnly));
    }
    std::map<std::string, reshape::PlacedTensor> added;  // by the moment's name
    for (const reshape::PlacedTensor& moments : state_->placed) {
        for (const reshape::PlacedPiece& moment : moments.pieces) {
            const auto piece =
                moments.state == catalogue::kMoment && written.contains(moment.number)
                    ? state_->arrangement.step_beside(moment)
                    : std::nullopt;
            if (piece) {
                added[plan::piece_name(moment)] = {{}, {*piece}, reshape::kStep, moments.weight};
            }
        }
    }
    for (auto& [name, step_of] : added) {
        targets.push_back(plan::literal_target(plan::piece_name(step_of.pieces.front()), DType::f32,
                                               1, std::as_bytes(std::span(&value, 1))));
        targets.back().shape.clear();
        targets.back().state = reshape::kStep;
        targets.back().piece = step_of.pieces.front().number = ++state_->n_pieces;
        state_->placed.push_back(std::move(step_of));
    }
    return targets;
}

std::vector<reshape::Parameter> TrainingForm::parameters(
    const std::vector<plan::Target>& states) const {
    if (state_ == nullptr) {
        return {};
    }
    const auto numbers = pieces_of(states);
    const auto is_state = [&](const reshape::PlacedPiece& piece) {
        return numbers.contains(piece.number);
    };
    std::vector<reshape::PlacedTensor> written;
    for (const reshape::PlacedTensor& tensor : state_->placed) {
        if (std::ranges::any_of(tensor.pieces, is_state)) {
            written.push_back({tensor.whole, {}, tensor.state, tensor.weight});
        }
    }
    return reshape::parameters_of(written);
}

std::string TrainingForm::lost(const reshape::OptimizerToWrite& optimizer,
                               const std::vector<reshape::Parameter>& parameters) const {
    return state_ != nullptr && state_->arrangement.lost
               ? state_->arrangement.lost(optimizer, parameters)
               : "";
}

bool TrainingForm::has_masters_as_weights() const {
    return state_ != nullptr && state_->arrangement.has_masters_as_weights;
}

TrainingForm::TrainingForm(std::shared_ptr<const TemplateForm> like,
                           const std::shared_ptr<const models::Recipe>& recipe,
                           std::shared_ptr<const models::Symbols> written, Passing passing)
    : written_(std::move(written)), passing_(std::move(passing)), like_(std::move(like)) {
    pieces_ = [like = like_, recipe, symbols = written_](const models::Line& line,
                                                         const models::Captures& captures,
                                                         const std::vector<Index>& shape) {
        const std::string name = reshape::name_of(line, captures, *symbols);
        return like->pieces(like->has(name) ? name : plan::renamed(*recipe, name), shape);
    };
}

const Checkpoint* TrainingForm::like() const {
    return like_ == nullptr ? nullptr : &like_->checkpoint();
}

plan::PiecesOf TrainingForm::pieces() const {
    return pieces_;
}

TrainingForm::Passing TrainingForm::passing() const {
    return passing_;
}

namespace {

/// Leaves one piece for each target, a copy if that is one: optional tensors that are not stored
/// have none, and of several checkpoints each asked for them.
void bind_pieces(const std::vector<plan::Target>& targets, std::uint32_t n_pieces,
                 std::vector<reshape::PlacedTensor>& placed) {
    constexpr std::uint32_t kNone = ~std::uint32_t{0};
    std::vector<std::uint32_t> target_of(n_pieces + std::size_t{1}, kNone);
    for (std::uint32_t i = 0; i < targets.size(); ++i) {
        target_of.at(targets[i].piece) = i;
    }
    for (reshape::PlacedTensor& tensor : placed) {
        std::erase_if(tensor.pieces, [&](reshape::PlacedPiece& piece) {
            piece.target = target_of.at(piece.number);
            return piece.target == kNone;
        });
        for (reshape::PlacedPiece& piece : tensor.pieces) {
            piece.is_copy = targets[piece.target].is_copy;
        }
    }
    std::erase_if(placed,
                  [](const reshape::PlacedTensor& tensor) { return tensor.pieces.empty(); });
}

}  // namespace

std::shared_ptr<const outputs::OutputFormat> TrainingForm::format(
    plan::Binding& binding, const reshape::OptimizerToWrite* optimizer) const {
    if (like_ != nullptr) {
        return like_->format(binding);
    }
    std::vector<reshape::PlacedTensor> placed = std::exchange(state_->placed, {});
    bind_pieces(binding.targets, state_->n_pieces, placed);
    return outputs::training_format_of(state_->arrangement.save(std::move(placed), optimizer));
}

}  // namespace shardweld::app
