// The Hub as a store.
#include <utility>

#include "client_progress.hpp"
#include "store.hpp"

namespace shardweld::upload {

namespace {

class HubStore final : public Store {
  public:
    HubStore(UploadRequest request, Access access)
        : request_(std::move(request)), access_(std::move(access)) {}

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

  private:
    UploadRequest request_;
    Access access_;
};

}  // namespace

std::unique_ptr<Store> hub_store(const UploadRequest& request, const Environment& environment) {
    return std::make_unique<HubStore>(request, check_access(request, environment));
}

}  // namespace shardweld::upload
