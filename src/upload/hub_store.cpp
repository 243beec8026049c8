// The Hub as a store.
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "client_progress.hpp"
#include "hub_ahead.hpp"
#include "store.hpp"

namespace shardweld::upload {

namespace {

class HubStore final : public Store {
  public:
    HubStore(UploadRequest request, Access access, std::optional<fs::path> python)
        : request_(std::move(request)), access_(std::move(access)), python_(std::move(python)) {}

    [[nodiscard]] std::string place() const override { return "to " + request_.repository; }
    [[nodiscard]] const fs::path& client() const override { return access_.client; }

    void send(const fs::path& directory, const Telling& telling) override {
        request_.directory = directory;
        ClientProgress sent(directory, request_.kept_back);
        upload(request_, access_, [&](std::string_view line) {
            (line == kNoCard ? telling.note : telling.line)(line);
            telling.sent(sent.read(line));
        });
    }

    [[nodiscard]] std::string why_not_ahead() const override {
        return python_ ? ""
                       : access_.client.string() + " is no Python program that could send them";
    }
    /// send() asks the Hub what is there.
    void send_ahead(const fs::path& directory, const std::string& name,
                    const std::function<bool()>& is_over) const override {
        UploadRequest request = request_;
        request.directory = directory;
        upload::send_ahead(request, access_, *python_, name, is_over);
    }

  private:
    UploadRequest request_;
    Access access_;
    std::optional<fs::path> python_;  ///< of the client
};

}  // namespace

std::unique_ptr<Store> hub_store(const UploadRequest& request, const Environment& environment) {
    Access access = check_access(request, environment);
    auto python = python_of(access.client, environment("PATH").value_or(""));
    return std::make_unique<HubStore>(request, std::move(access), std::move(python));
}

}  // namespace shardweld::upload
