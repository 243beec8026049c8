// The Hub as a store.
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "shardweld/error.hpp"

#include "client_progress.hpp"
#include "hub_ahead.hpp"
#include "store.hpp"

namespace shardweld::upload {

namespace {

class HubStore final : public Store {
  public:
    HubStore(UploadRequest request, Access access, std::string path)
        : request_(std::move(request)), access_(std::move(access)), path_(std::move(path)) {}

    [[nodiscard]] std::string place() const override { return "to " + request_.repository; }
    [[nodiscard]] const fs::path& client() const override { return access_.client; }

    void send(const fs::path& directory, const Telling& telling) override {
        request_.directory = directory;
        if (const std::string why = telling.why_stop ? telling.why_stop() : ""; !why.empty()) {
            throw Error(ErrorCode::interrupted,
                        why + ", before the upload to " + request_.repository,
                        "then, from " + directory.string() + ": " + retry_command(request_));
        }
        ClientProgress sent(directory, request_.kept_back);
        upload(request_, access_, [&](std::string_view line) {
            (line == kNoCard ? telling.note : telling.line)(line);
            telling.sent(sent.read(line));
        });
    }

    [[nodiscard]] std::string prepare_ahead() override {
        try {
            python_ = python_of(access_.client, path_);
        } catch (const Error&) {
            python_.reset();  // a program that may be run, but not read
        }
        return python_ ? ""
                       : access_.client.string() +
                             " is not the program that pip makes of huggingface_hub";
    }
    /// send() asks the Hub what is there.
    void send_ahead(const fs::path& directory, const std::string& name,
                    const std::function<bool()>& is_over) override {
        UploadRequest request = request_;
        request.directory = directory;
        upload::send_ahead(request, access_, *python_, {name, !is_made_}, is_over);
        is_made_ = true;
    }
    [[nodiscard]] PutPlace own_place() const override {
        return {"hub " + request_.repository, place()};
    }

  private:
    UploadRequest request_;
    Access access_;
    std::string path_;                ///< as PATH
    std::optional<fs::path> python_;  ///< of the client
    bool is_made_ = false;            ///< the repository, and its revision
};

}  // namespace

std::unique_ptr<Store> hub_store(const UploadRequest& request, const Environment& environment) {
    Access access = check_access(request, environment);
    return std::make_unique<HubStore>(request, std::move(access), environment("PATH").value_or(""));
}

}  // namespace shardweld::upload
