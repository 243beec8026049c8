// A model in the form of a training checkpoint (--to): its names and layouts before it is bound,
// and the files behind.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/config.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"
#include "outputs/format.hpp"
#include "plan/binding.hpp"

#include "template_form.hpp"

namespace shardweld::reshape {
struct Destination;
struct OptimizerToWrite;
struct Parameter;
}  // namespace shardweld::reshape

namespace shardweld::app {

/// The tensors of a training checkpoint, as binding asks for their pieces.
class TrainingForm {
  public:
    /// Names that the form has for tensors that pass, by those of the hub.
    using Passing = std::function<std::string(const std::string&)>;
    /// `written`: the symbols of the form's lines. Error(mismatch) where the model cannot be spread
    /// over the ranks that `to` asks for.
    TrainingForm(const reshape::Destination& to, std::shared_ptr<const models::Symbols> written,
                 Passing passing);
    /// A form like a template's, whose tensors have the hub's beginnings of names: `recipe` tells
    /// them.
    TrainingForm(std::shared_ptr<const TemplateForm> like,
                 const std::shared_ptr<const models::Recipe>& recipe,
                 std::shared_ptr<const models::Symbols> written, Passing passing);

    [[nodiscard]] const models::Symbols& written() const { return *written_; }
    /// Whether tensors that are no part of the family have names in it: those of a module tree, or
    /// a template's.
    [[nodiscard]] bool has_names_for_all() const { return has_names_for_all_; }
    /// The template; null where there is none.
    [[nodiscard]] const Checkpoint* like() const;
    /// Notes every piece that it gives.
    [[nodiscard]] plan::PiecesOf pieces() const;
    /// The pieces of one of the optimizer's states. Error(unsupported) for forms that have no place
    /// for it.
    [[nodiscard]] plan::PiecesOf pieces(const std::string& state) const;
    /// Targets for the step of each parameter whose moments are among `states`, in forms that
    /// keep it as a tensor; else none.
    [[nodiscard]] plan::Targets steps(double step, const plan::Targets& states) const;
    /// Whether its weights are the fp32 masters, which have no other place in it.
    /// The parameters that have states among these targets, under the names that are written.
    [[nodiscard]] std::vector<reshape::Parameter> parameters(const plan::Targets& states) const;
    /// What this form cannot say of the optimizer's groups, for people; "": it says all.
    /// Error(unsupported) where it cannot be written at all.
    [[nodiscard]] std::string lost(const reshape::OptimizerToWrite& optimizer,
                                   const std::vector<reshape::Parameter>& parameters) const;
    [[nodiscard]] bool has_masters_as_weights() const;
    /// What the form calls a tensor that passes.
    [[nodiscard]] Passing passing() const;
    /// The files of the targets that were bound with these pieces, which it no longer holds then:
    /// there may be a million. A template's adds some targets. `optimizer`: of the states among
    /// them; null where there are none.
    [[nodiscard]] std::shared_ptr<const outputs::OutputFormat> format(
        plan::Binding& binding, const reshape::OptimizerToWrite* optimizer) const;

  private:
    struct State;
    [[nodiscard]] plan::PiecesOf noted_pieces(const std::string& state) const;

    std::shared_ptr<const models::Symbols> written_;
    Passing passing_;
    plan::PiecesOf pieces_;
    bool has_names_for_all_ = true;
    std::shared_ptr<State> state_;              ///< of a form with an arrangement
    std::shared_ptr<const TemplateForm> like_;  ///< of a template's
};

/// Whether it is a form of Megatron's, with Megatron's names.
bool is_megatron(const reshape::Destination& to);

}  // namespace shardweld::app
