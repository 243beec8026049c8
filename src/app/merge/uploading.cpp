#include "uploading.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/messages/progress.hpp"
#include "app/runtime/external.hpp"
#include "core/text.hpp"
#include "process/command.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

std::vector<std::string> upload_words(const Job& job, const fs::path& directory) {
    std::vector<std::string> words{"--hf_upload_path=" + job.run.upload_path};
    if (!directory.empty()) {
        words.push_back("--local_dir=" + directory.string());
    }
    if (job.run.is_private) {
        words.emplace_back("--private");
    }
    if (!job.run.revision.empty()) {
        words.push_back("--revision=" + job.run.revision);
    }
    if (job.run.hf_cli) {
        words.push_back("--hf_cli=" + job.run.hf_cli->string());
    }
    return words;
}

/// What the command tells of a step of a merge: a JSON object on each line.
void take_event(const nlohmann::json& event, Progress& progress, Log& log,
                std::optional<Error>& failure) {
    const auto text = event.value("text", std::string());
    const auto kind = event.value("event", std::string());
    const auto bytes = event.value("bytes", Index{0});
    if (kind == "failed") {
        failure.emplace(static_cast<ErrorCode>(event.value("code", 0)), text,
                        event.value("hint", std::string()));
    } else if (kind == "line") {
        log.debug("client: " + text);
    } else if (kind == "sent") {
        progress.update(bytes);
    } else {
        log.info(text);
    }
    if (kind == "begin") {
        progress.begin("uploading", {bytes, bytes});
    }
}

/// Error of the command, or that it did not end as it should.
void run_to_success(process::Process command, Progress& progress, Log& log) {
    constexpr std::size_t kMostLast = 300;
    std::optional<Error> failure;
    std::string last;  // that is no JSON: of what Python says where it fails
    command.on_line = [&](std::string_view line) {
        const auto event = nlohmann::json::parse(line, nullptr, false);
        if (event.is_object()) {
            take_event(event, progress, log, failure);
        } else {
            last = printable(line, kMostLast);
        }
    };
    const auto ending = process::run(command);
    progress.end();
    const std::string fault = process::fault_of(ending);
    if (failure) {
        throw Error(*failure);
    }
    if (!fault.empty()) {
        const bool is_stopped = ending && (ending->was_stopped || ending->signal);
        throw Error(is_stopped ? ErrorCode::interrupted : ErrorCode::internal,
                    "the command upload " + fault + (last.empty() ? "" : ": " + last));
    }
}

/// Collective. The first rank runs the command, the others sleep.
void run_upload(mpi::Comm& comm, const Job& job, std::vector<std::string> words,
                const mpi::WhyStop& why_stop, Log& log) {
    Progress progress(log, style_for(job.run.progress, log, job.run.log_level == LogLevel::error),
                      steady_clock());
    mpi::collectively_in_steps(comm, [&](const mpi::OnStep&) {
        if (comm.rank() != 0) {
            return;
        }
        if (const std::string why = why_stop ? why_stop() : ""; !why.empty()) {
            std::vector<std::string> again{"shardweld", "upload"};
            again.insert(again.end(), words.begin() + 1, words.end());
            throw Error(ErrorCode::interrupted, why + ", before the upload",
                        "then: " + process::shell_line(again));
        }
        process::Process command = installed_command("upload", words);
        command.withheld = process::variables_of_ranks();
        run_to_success(std::move(command), progress, log);
    });
}

}  // namespace

void check_upload(mpi::Comm& comm, const Job& job, Log& log) {
    auto words = upload_words(job, {});
    words.insert(words.begin(), "--merge_step=check");
    run_upload(comm, job, std::move(words), {}, log);
}

void upload_directory(mpi::Comm& comm, const Job& job, const fs::path& directory,
                      const mpi::WhyStop& why_stop, Log& log) {
    auto words = upload_words(job, directory);
    words.insert(words.begin(), "--merge_step=send");
    run_upload(comm, job, std::move(words), why_stop, log);
}

}  // namespace shardweld::app
