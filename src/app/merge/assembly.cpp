#include "assembly.hpp"

#include <algorithm>

#include "shardweld/adapters/separate.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/execute/norms.hpp"
#include "shardweld/execute/rates.hpp"
#include "shardweld/plan/cost.hpp"
#include "shardweld/plan/trace.hpp"

#include "../cli/run_progress.hpp"
#include "../compare/model_directory.hpp"
#include "../family/base_model.hpp"
#include "../family/lora.hpp"
#include "../runtime/resources.hpp"
#include "aftermath.hpp"
#include "resumption.hpp"
#include "tied.hpp"

namespace shardweld::app {

namespace {

std::string text_of(const Untied& untied) {
    return untied.stored_name + " differs from " + untied.target + " in " +
           std::to_string(untied.n_elements) + " elements, though the model ties them";
}

/// Plain tensors of which nothing tells the shape, and that are no replicas.
void require_known_shape(const Untied& untied) {
    if (untied.why == plan::SamePair::Why::presumed) {
        throw Error(ErrorCode::mismatch,
                    untied.stored_name + " is a plain tensor that differs between ranks in " +
                        std::to_string(untied.n_elements) +
                        " elements, and no recipe tells its shape: if the ranks hold shards of dim "
                        "0, say so with --mesh_dim_names fsdp --mesh_shape N");
    }
}

}  // namespace

void Assembly::prepare(const std::function<void()>& between_steps) {
    between_steps();
    read_metadata();
    between_steps();
    bind_all();
    between_steps();
    make_plan();
    between_steps();
    if (comm_.rank() == 0) {
        describe_plan(report_, plan_, survey_.catalogue.files);
    }
}

/// The checkpoint, and the base of one that holds an adapter alone.
void Assembly::look() {
    survey_ = survey(comm_, input_request(options_));
    holds_adapter_only_ = adapters::holds_adapter_only(survey_.catalogue);
    if (is_base_of_adapter(options_, survey_.catalogue)) {
        Survey base = survey(comm_, base_request(options_));
        base_ = base.location;
        mpi::collectively(comm_, [&] { add_base(survey_, std::move(base)); });
    }
}

void Assembly::read_metadata() {
    look();
    for (const std::string& note : survey_.catalogue.notes) {
        log_.info(note);
    }
    log_.info("read the metadata of " + std::to_string(survey_.catalogue.files.size()) +
              " shard files: " +
              std::to_string(survey_.catalogue.tensors.size() + survey_.catalogue.shards.size()) +
              " stored tensors");
    log_.info("provenance " + catalogue::text_of(survey_.provenance));
    for (const auto& [code, text] : survey_.catalogue.warnings) {
        warn({code, "", text});
    }
    sums_ = record_sums(survey_.location.directory, survey_.catalogue);
    describe_input(report_, survey_.location.directory, survey_.catalogue);
    report_.provenance = survey_.provenance;
    watch_.lap("survey");
}

void Assembly::bind_all() {
    files_ = share_model_files(comm_, survey_.home, [&] {
        const bool is_alone = is_adapter_alone(options_, survey_.catalogue);
        return read_model_files(options_, {survey_.location, base_, !is_alone});
    });
    source_ = {survey_.location.directory,
               &survey_.catalogue.files,
               options_.max_open,
               throttle_of(options_, comm_),
               {},
               &survey_.stamps,
               options_.check_crc == CheckCrc::during ? sums_ : nullptr};
    if (log_.is_kept()) {
        source_.on_open = [this](const fs::path& file) {
            log_.note("opens " + printable(file.string()));
        };
    }
    choice_ = plan_choice(options_, shared_resources(comm_));
    choice_.records = &sums_->records();
    bind(options_.tie_word_embedding);
    const auto untied = compare_same(comm_, bound_.binding, source_, survey_.visibility, choice_);
    if (!untied.empty()) {
        check_what_was_read({});
    }
    for (const Untied& one : untied) {
        require_known_shape(one);
    }
    if (!untied.empty()) {
        keep_untied(untied.front().stored_name, text_of(untied.front()));
    }
    for (const std::string& note : prepared_.notes) {
        log_.info(note);
    }
    for (const std::string& note : bound_.notes) {
        log_.info(note);
    }
    for (const plan::Warning& warning : prepared_.warnings) {
        warn(warning);
    }
    for (const plan::Warning& warning : bound_.binding.warnings) {
        warn(warning);
    }
    report_.ledger = bound_.binding.ledger;
    watch_.lap("bind");
}

void Assembly::bind(bool tie) {
    mpi::collectively(comm_, [&] {
        Options options = options_;
        options.tie_word_embedding = tie;
        prepared_ = prepare_model(files_, options, survey_.catalogue);
        if (!options_.trace.empty()) {
            trace_ = plan::trace_stored(survey_.catalogue, prepared_.model(), options_.trace);
        }
        bound_ = bind_model(prepared_, files_, options_, metadata());
    });
    sums_->want(bound_.binding.targets);
    sums_->want(bound_.factors);
}

/// The tensors move into the binding, the list of files stays.
catalogue::Catalogue Assembly::metadata() {
    catalogue::Catalogue moved = std::move(survey_.catalogue);
    survey_.catalogue = {};
    survey_.catalogue.files = moved.files;
    survey_.catalogue.facts = moved.facts;
    return moved;
}

/// A tied model whose head differs: both are kept, unless the checkpoint itself says that they are
/// one.
void Assembly::keep_untied(const std::string& stored_name, const std::string& text) {
    const auto shared = survey_.catalogue.facts.find("shared_embeddings");
    if (shared != survey_.catalogue.facts.end() && shared->second == 1) {
        throw Error(ErrorCode::mismatch,
                    text + " and the training job shared them: the checkpoint contradicts itself");
    }
    look();
    models::Config config = models::Config::parse(files_.config_text, files_.config_path);
    config.set("tie_word_embeddings", "false");
    files_.config_text = config.text_to_write();
    bind(false);
    warn({"tied_differs", stored_name,
          text + ": both are written and config.json's tie_word_embeddings is set to false"});
}

/// Where ranks may choose and much is to be read, a short measurement tells what reading and
/// sending cost here.
void Assembly::measure() {
    constexpr Bytes kWorthwhile = Bytes{256} << 20U;
    Bytes total = 0;
    for (const plan::Target& target : bound_.binding.targets) {
        total += target.bytes();
    }
    if (choice_.strategy != plan::Strategy::automatic || comm_.size() == 1 ||
        choice_.spares_ranks(comm_.size()) || total < kWorthwhile) {
        return;
    }
    const plan::Rates rates = execute::measure_rates(comm_, source_, survey_.visibility);
    choice_.cost = [rates](const plan::Plan& plan) {
        return plan::seconds_of(plan::traffic_of(plan), rates, plan.is_lockstep);
    };
    watch_.lap("measure");
}

void Assembly::make_plan() {
    measure();
    plan_ = mpi::collectively_get(comm_, [&] {
        return plan::make_plan(std::move(bound_.binding.targets), survey_.catalogue.files,
                               survey_.visibility, choice_);
    });
    if (!bound_.factors.empty()) {
        plan::Choice all = choice_;
        all.replicas = plan::Replicas::verify;
        factor_plan_ = mpi::collectively_get(comm_, [&] {
            return plan::make_plan(std::move(bound_.factors), survey_.catalogue.files,
                                   survey_.visibility, all);
        });
    }
    for (const plan::Warning& warning : plan_warnings(plan_)) {
        warn(warning);
    }
    tell_trace();
    meter_.planned();
    watch_.lap("plan");
}

void Assembly::warn(const plan::Warning& warning) {
    report_.warnings.push_back(warning);
    if (!options_.strict) {
        log_.warning(warning.text);
    }
}

std::vector<Error> Assembly::strict_problems() const {
    std::vector<Error> problems;
    if (options_.strict) {
        for (const plan::Warning& warning : report_.warnings) {
            problems.emplace_back(ErrorCode::strict, warning.text + " (" + warning.code +
                                                         ", an error under --strict)");
        }
    }
    return problems;
}

void Assembly::create_files(const io::Directory& directory, const std::string& config_text) {
    plan_.placement.format->embed_config(plan_.placement, config_text);
    created_ = execute::create_files(comm_, plan_, directory, options_.sync);
    watch_.lap("create");
}

/// Gathers the factors of a fold in a file that all ranks read, and takes the norms they need.
void Assembly::make_factors(const io::Directory& directory, const execute::Options& as) {
    execute::create_files(comm_, *factor_plan_, directory);
    execute::Options options;
    options.why_stop = as.why_stop;
    options.sync = comm_.size() > 1;
    const auto result = execute::run(comm_, *factor_plan_, source_, directory, options);
    if (!result.differences.empty()) {
        check_what_was_read(as.why_stop);
    }
    require_equal_replicas(result, *factor_plan_, survey_.catalogue.files);
    execute::take_norms(comm_, plan_, source_, directory.path() / kFactors, as.why_stop);
    watch_.lap("factors");
}

void Assembly::execute(const io::Directory& directory, execute::Options options) {
    if (factor_plan_) {
        make_factors(directory, options);
        options.factors = directory.path() / kFactors;
    }
    const auto& blocks = options.resumption.blocks;
    if (!blocks.empty()) {
        plan::share_rest(plan_, execute::BlockPlaces(plan_).lines(blocks), choice_.alignment);
    }
    RunProgress progress(plan_, comm_.rank(), log_);
    options.sync = options_.sync;
    options.direct = options_.is_direct;
    options.digests = options_.report.has_value();
    options.made = created_.files;
    options.on_progress = [&](Bytes done) { progress.update(done); };
    sums_->add_earlier(options.resumption.sums);
    execute::Result result = execute::run(comm_, plan_, source_, directory, options);
    written_ = std::move(result.written);
    progress.finish();
    check_what_was_read(options.why_stop);
    mpi::collectively(comm_, [&] {
        if (factor_plan_ && comm_.rank() == 0) {
            fs::remove(options.factors);
        }
    });
    if (options_.resume) {
        note_reuse(result, plan_.placement.tensor_bytes, report_, log_);
    }
    require_equal_replicas(result, plan_, survey_.catalogue.files);
    note_result(result, options.digests);
}

void Assembly::check_written(const io::Directory& directory, const mpi::WhyStop& why_stop) const {
    execute::check_written(comm_, plan_, directory, created_, written_,
                           {options_.paranoid, source_.throttle, why_stop});
}

void Assembly::note_result(const execute::Result& result, bool has_digests) {
    Phase& phase = watch_.lap("execute");
    report_.ranks = result.ranks;
    report_.memory = meter_.gather(comm_);
    for (const execute::RankResult& rank : result.ranks) {
        phase.bytes_read += rank.bytes_read;
        phase.bytes_written += rank.bytes_written;
        phase.bytes_sent += rank.bytes_sent;
        // A message limit cuts one round of reading into several of exchanging.
        report_.rounds = std::max({report_.rounds, rank.rounds, rank.exchange_steps});
    }
    log_.info("read " + human_bytes(phase.bytes_read) + " from " +
              std::to_string(survey_.catalogue.files.size()) + " shard files, sent " +
              human_bytes(phase.bytes_sent) + ", wrote " + human_bytes(phase.bytes_written));
    if (const std::string text =
            text_of(report_.crc.value_or(execute::RecordCounts()), options_.check_crc);
        options_.check_crc == CheckCrc::during && !text.empty()) {
        log_.info(text);
    }
    if (has_digests && comm_.rank() == 0) {
        report_.tensors = tensor_entries(plan_, survey_.catalogue.files, result.tensor_digests);
        report_.root = execute::root_digest(plan_, result.tensor_digests);
    }
}

}  // namespace shardweld::app
