#include "proof.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "app/report/report_json.hpp"
#include "app/runtime/version.hpp"
#include "app/survey/input.hpp"
#include "execute/record_sums.hpp"

namespace shardweld::mount {

namespace {

using nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr std::size_t kMostFailures = 100;

ordered_json json_of(const Error& error) {
    return {{"code", static_cast<int>(error.code())},
            {"name", name_of(error.code())},
            {"text", error.full_text()}};
}

}  // namespace

void Proof::note(const Error& failure) {
    const std::lock_guard lock(mutex_);
    is_proved_ = false;
    const bool is_known = std::ranges::any_of(
        failures_, [&](const Error& known) { return known.full_text() == failure.full_text(); });
    if (!is_known && failures_.size() < kMostFailures) {
        failures_.push_back(failure);
    }
}

void Proof::read_all(const GivesUp& gives_up) {
    ByteBuffer bytes;
    for (const std::size_t file : indices(files_.files())) {
        const Bytes size = files_.files()[file].size;
        for (Bytes at = 0; at < size; at += bytes.size()) {
            if (gives_up()) {
                throw Error(ErrorCode::stopped, "nobody waits for the proof any more");
            }
            bytes.resize(std::min(kStrip, size - at));
            try {
                files_.read(file, at, bytes);
            } catch (Error& error) {
                error.add_context("read as " + files_.files()[file].name);
                throw;
            }
        }
    }
    const app::Input& input = model_.merge().input;
    if (input.is_checked && input.sums) {
        const auto why_stop = [&] {
            return gives_up() ? std::string("nobody waits any more") : "";
        };
        const auto counts = execute::check_records(
            model_.run().comm, *input.sums, app::source_of(model_.run(), input), input.visibility,
            execute::Completion::all, why_stop);
        const std::lock_guard lock(mutex_);
        proved_ = counts;
    }
}

std::string Proof::prove(const GivesUp& gives_up) {
    const std::lock_guard proving(proving_);
    {
        const std::lock_guard lock(mutex_);
        failures_.clear();
    }
    try {
        read_all(gives_up);
        const std::lock_guard lock(mutex_);
        is_proved_ = failures_.empty();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::stopped) {  // the next one who asks gets it
            note(error);
        }
    }
    return told();
}

/// Counts the records that the model is made of, and which of them were read whole so far.
execute::RecordCounts Proof::counts() const {
    const auto& sums = model_.merge().input.sums;
    execute::RecordCounts counts;
    if (!model_.merge().input.is_checked || sums == nullptr) {
        return counts;
    }
    const auto& records = sums->records().all;
    std::vector<bool> is_whole(records.size());
    for (const execute::RangeSum& range : sums->all()) {
        is_whole[range.record] = range.begin == 0 && range.end == records[range.record].bytes;
    }
    counts.without = sums->n_without();
    for (const std::size_t at : indices(records)) {
        if (sums->is_due(at)) {
            (is_whole[at] ? counts.checked : counts.unchecked) += 1;
            (is_whole[at] ? counts.checked_bytes : counts.unchecked_bytes) += records[at].bytes;
        }
    }
    return counts;
}

std::string Proof::told() {
    const execute::RecordCounts so_far = counts();
    const std::lock_guard lock(mutex_);
    const execute::RecordCounts& records = proved_ ? *proved_ : so_far;
    const ordered_json json = {
        {"schema", kSchema},
        {"tool", app::version()},
        {"mount_point", point_.string()},
        {"is_training", model_.output().model.training != nullptr},
        {"is_proved", is_proved_},
        {"failures", collect_list(failures_, json_of)},
        {"records",
         {{"checked", records.checked},
          {"checked_bytes", records.checked_bytes},
          {"unchecked", records.unchecked},
          {"unchecked_bytes", records.unchecked_bytes},
          {"without", records.without}}},
        {"files", collect_list(files_.files(),
                               [](const ServedFile& file) -> ordered_json {
                                   return {{"name", file.name}, {"bytes", file.size}};
                               })},
        {"merge", ordered_json::parse(app::to_json(*model_.run().report, model_.output().report))}};
    return app::json_text(json);
}

}  // namespace shardweld::mount
