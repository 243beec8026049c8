// A merge under way: its checkpoints and its outputs. Each step of the main path completes both.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/family/checkpoint_template.hpp"
#include "app/family/model.hpp"
#include "app/report/run.hpp"
#include "app/runtime/memory.hpp"
#include "app/survey/checkpoint.hpp"
#include "app/survey/input.hpp"
#include "execute/run.hpp"
#include "io/directory.hpp"
#include "io/written.hpp"
#include "plan/job_plan.hpp"
#include "plan/plan.hpp"
#include "publish/assets.hpp"
#include "publish/config_edits.hpp"
#include "publish/run_facts.hpp"
#include "publish/target.hpp"

namespace shardweld::app {

/// One model or training checkpoint that is made, written or compared.
struct Output {
    OutputReport& report;  ///< in the run's report, with what is asked for

    // When it is planned.
    HeldModel model = {};  ///< its targets are the plan's
    plan::Plan plan = {};
    std::optional<plan::Plan> measured = {};  ///< of weights whose largest values come first
    std::string config_text = {};             ///< config.json as it is written

    // When it is staged: what is written of it, and what there is to go on with, should the run
    // fail.
    std::optional<publish::PartialDirectory> partial = {};  ///< the first rank's
    std::optional<publish::RunFacts> begun = {};            ///< blocks are written down
    std::optional<io::Directory> directory = {};  ///< the partial one, or where factors lie
    execute::Resumption resumption = {};
    std::size_t n_known = 0;  ///< what the journal told, as Resumption::n_known
    execute::CreatedFiles created = {};
    execute::Written written = {};
    std::vector<io::WrittenFile> beside = {};  ///< the home rank's: all that is not a tensor
    io::Identities files = {};                 ///< of the model, when they are complete

    [[nodiscard]] const JobOutput& asked() const { return report.asked; }
    /// What the written config.json has to say.
    [[nodiscard]] publish::Facts facts() const;
    /// The first of its architectures, "" for none.
    [[nodiscard]] std::string model_class() const;
    /// What it says of tie_word_embeddings; nullopt: nothing.
    [[nodiscard]] std::optional<bool> ties() const;
    /// Whether it gets a README.md, whose text is known behind the tensors.
    [[nodiscard]] bool gets_card(const Job& job) const;
    /// All files beside the tensors but that. Local.
    [[nodiscard]] std::vector<publish::Asset> assets() const;
};

/// All that a merge knows.
struct Merge {
    std::shared_ptr<void> handed = {};  ///< where plans and input lie that another rank has made

    // In what merge, test and plan differ until the first tensor byte moves.
    bool is_written = true;      ///< as a model_choice() is: not where it is compared or read
    bool halves_memory = false;  ///< the other half reads a model to compare with
    int n_ranks = 0;             ///< that move the tensors and are not here; 0: those here do
    Resources supposed = {};     ///< of those
    Resources here = {};         ///< of the ranks that are here

    // When it is found: the checkpoint that is merged first, then the base of an adapter, those
    // that are mixed (the base of --task_arithmetic first), the template, and the reference that
    // has what the checkpoint lacks.
    std::vector<Checkpoint> inputs = {};
    /// The model's; nullopt until they are read: with --base the checkpoint's metadata tell whose
    /// they are.
    std::optional<ModelFiles> model_files = {};

    // When it is read. Catalogues move into a binding.
    Input input = {};
    std::shared_ptr<const Checkpoint> like = {};
    std::shared_ptr<const Checkpoint> supplement = {};
    bool holds_adapter_only = false;  ///< nothing but an adapter, without a base
    /// The groups of ranks that move tensors, where fewer ranks plan.
    std::optional<HostGroups> hosts = {};

    // When it is planned. At least one output, the first one first.
    std::vector<Output> outputs = {};
    std::optional<plan::Plan> factors = {};  ///< of a fold's factors, which are gathered first
    std::optional<plan::Plan> norms = {};    ///< of weights that pieces of are folded (DoRA)
    std::vector<std::string> trace = {};     ///< --trace

    [[nodiscard]] Checkpoint& weights() { return inputs.front(); }
    [[nodiscard]] const Checkpoint& weights() const { return inputs.front(); }
    [[nodiscard]] Output& first() { return outputs.front(); }
    [[nodiscard]] const Output& first() const { return outputs.front(); }
    [[nodiscard]] bool writes_training() const;
    /// What the ranks have that move the tensors.
    [[nodiscard]] const Resources& resources() const { return n_ranks > 0 ? supposed : here; }
    /// What plans are made by where ranks have these resources; options win.
    [[nodiscard]] plan::JobPlan choice_for(const Job& job, const Resources& ranks) const;
    /// Numbers of outputs that are made in the same rounds, those of the first of them: models are
    /// made of one read, each training checkpoint of a read of its own.
    [[nodiscard]] std::vector<std::vector<std::size_t>> runs() const;
    /// The size of the file with a fold's factors, which lies beside the first output meanwhile; 0:
    /// none.
    [[nodiscard]] Bytes factor_bytes() const {
        return factors ? factors->placement.total_bytes() : 0;
    }
    /// The memory that a rank will take; `ranks_on_node`: where they are others than planned for.
    [[nodiscard]] MemoryForecast forecast(const mpi::Comm& comm,
                                          std::optional<int> ranks_on_node = {}) const;
};

/// A merge of what the run's options ask for, by its own ranks, of all its outputs.
Merge begin_merge(const Run& run);
/// A merge that is compared with a model instead of written: half of the memory assembles, the
/// other half reads that model.
Merge begin_comparison(const Run& run);

}  // namespace shardweld::app
