#include "merge.hpp"

#include "shardweld/core/text.hpp"
#include "shardweld/publish/assets.hpp"
#include "shardweld/publish/config_edits.hpp"
#include "shardweld/publish/target.hpp"

#include "aftermath.hpp"
#include "assembly.hpp"
#include "lora.hpp"
#include "memory_check.hpp"
#include "reported.hpp"
#include "roof.hpp"
#include "striping.hpp"
#include "upload.hpp"

namespace shardweld::app {

namespace {

/// One merge: an assembly whose tensors are written and published.
class Merge {
  public:
    Merge(mpi::Comm& comm, const Options& options, Log& log, Report& report, Stopwatch& watch)
        : comm_(comm),
          options_(options),
          log_(log),
          report_(report),
          watch_(watch),
          assembly_(comm, options, log, report, watch) {}

    void run() {
        check_target();
        look_at_roof();
        upload::Access access;
        if (is_uploaded()) {
            access = prepare_upload(comm_, options_);
        }
        assembly_.prepare();
        say_plan();
        write();
        if (is_uploaded()) {
            upload_directory(comm_, options_, options_.target_dir, access, log_);
            watch_.lap("upload");
        }
    }

  private:
    [[nodiscard]] bool is_first() const { return comm_.rank() == 0; }
    [[nodiscard]] bool is_uploaded() const { return !options_.upload_path.empty(); }

    [[nodiscard]] publish::TargetRequest target_request() const {
        publish::TargetRequest request{
            options_.target_dir, {options_.local_dir}, options_.overwrite};
        for (const auto& input : {options_.hf_config, options_.base}) {
            if (input) {
                request.inputs.push_back(*input);
            }
        }
        return request;
    }

    /// A target that cannot be written is said before hours of reading.
    void check_target() {
        mpi::collectively(comm_, [&] {
            if (is_first()) {
                (void)publish::checked_target(target_request());
            }
        });
    }

    /// A roof that cannot be read is said before hours of merging.
    void look_at_roof() {
        if (!options_.roof) {
            return;
        }
        mpi::collectively(comm_, [&] {
            if (is_first()) {
                roof_ = read_roof(*options_.roof);
                for (const std::string& doubt : roof_doubts(*roof_, comm_.size(), options_.sync)) {
                    log_.warning(doubt);
                }
            }
        });
    }

    /// How near to the roof the merge came; where one is known, on rank 0.
    void report_speed() {
        if (!roof_) {
            return;
        }
        Bytes read = 0;
        for (const plan::Target& target : assembly_.plan().targets) {
            read += target.bytes() / size_of(target.dtype) * size_of(target.stored);
        }
        const double speed =
            merge_gbs(watch_.phases(), read, assembly_.plan().placement.tensor_bytes);
        report_.roof = Roof{roof_->copy_gbs, speed, 100 * speed / roof_->copy_gbs};
        log_.info(text_of(*report_.roof));
    }

    void say_plan() {
        const plan::Plan& plan = assembly_.plan();
        log_.info("writing " + human_bytes(plan.placement.tensor_bytes) + " in " +
                  std::to_string(plan.targets.size()) + " tensors and " +
                  std::to_string(plan.placement.files.size()) + " files with " +
                  std::to_string(comm_.size()) + " ranks, " +
                  std::string(plan::name_of(plan.strategy)) + " (" + plan.why + ")");
    }

    /// Everything up to the last rename happens in the partial directory; its owner removes it when
    /// anything fails.
    void write() {
        const plan::Plan& plan = assembly_.plan();
        require_memory(comm_, plan);
        std::optional<publish::PartialDirectory> partial;
        mpi::collectively(comm_, [&] {
            if (is_first()) {
                partial.emplace(publish::PartialDirectory::create(target_request()));
                publish::check_space(partial->path(), plan.placement.total_bytes(),
                                     static_cast<Index>(plan.placement.files.size()));
                stripe(partial->path(), options_);
            }
        });
        const fs::path directory = share_path(partial ? partial->path() : fs::path());
        publish::check_same_directory(comm_, directory);
        assembly_.create_files(
            directory, publish::true_config(assembly_.model().config, facts()).text_to_write());
        assembly_.execute(directory, {});
        write_side_files(directory);
        mpi::collectively(comm_, [&] {
            if (partial) {
                partial->commit(options_.sync);
            }
        });
        watch_.lap("publish");
        log_.info("wrote " + options_.target_dir.string());
        report_speed();
    }

    [[nodiscard]] publish::Facts facts() const {
        publish::Facts facts = publish::facts_of(
            assembly_.plan().targets, assembly_.binding().logicals, *assembly_.model().recipe);
        facts.to_token_classes = assembly_.model().is_value;
        return facts;
    }

    /// Everything beside the tensors: the model's files, the adapter's configuration.
    [[nodiscard]] std::vector<publish::Asset> assets() const {
        std::vector<publish::Asset> assets;
        if (assembly_.has_model()) {
            assets = side_files(assembly_.files(), assembly_.model(), facts(),
                                assembly_.plan().placement);
        }
        if (!assembly_.adapter_config().empty()) {
            assets.push_back({kAdapterConfig, {}, assembly_.adapter_config()});
        }
        return assets;
    }

    void write_side_files(const fs::path& directory) {
        mpi::collectively(comm_, [&] {
            if (comm_.rank() == assembly_.home()) {
                publish::write_assets(assets(), directory, options_.sync);
            }
        });
    }

    fs::path share_path(const fs::path& path) {
        const std::string text = path.string();
        const auto bytes = std::as_bytes(std::span(text));
        const auto shared = comm_.broadcast({bytes.begin(), bytes.end()}, 0);
        return std::string(reinterpret_cast<const char*>(shared.data()), shared.size());
    }

    mpi::Comm& comm_;
    const Options& options_;
    Log& log_;
    Report& report_;
    Stopwatch& watch_;
    std::optional<MeasuredRoof> roof_;
    Assembly assembly_;
};

}  // namespace

int merge(mpi::Comm& comm, const Options& options, Log& log) {
    return run_reported(comm, options, log, "merge", [&](Report& report, Stopwatch& watch) {
        Merge(comm, options, log, report, watch).run();
        return ErrorCode::ok;
    });
}

}  // namespace shardweld::app
