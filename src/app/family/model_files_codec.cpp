// Config and recipes from the rank that reads them to all others.
#include <utility>

#include "model.hpp"

namespace shardweld::app {

void encode(const ModelFiles& files, ByteWriter& out) {
    out.put_text(files.hf_directory.string());
    out.put_text(files.config_path);
    out.put_text(files.config_text);
    out.put<std::uint64_t>(files.recipes.size());
    for (const models::Source& source : files.recipes) {
        out.put_text(source.file_name);
        out.put_text(source.text);
    }
    for (const adapters::ConfigFile* file : {&files.adapter_config, &files.train_meta}) {
        out.put_text(file->path);
        out.put_text(file->text);
    }
    out.put<std::uint64_t>(files.lost_assets.size());
    for (const std::string& name : files.lost_assets) {
        out.put_text(name);
    }
    out.put<Index>(files.tokens ? files.tokens->count : 0);
    out.put_text(files.tokens ? files.tokens->file : "");
}

ModelFiles decode_model_files(ByteReader& in) {
    ModelFiles files;
    files.hf_directory = in.get_text();
    files.config_path = in.get_text();
    files.config_text = in.get_text();
    for (auto n = in.get<std::uint64_t>(); n > 0; --n) {
        std::string name = in.get_text();
        files.recipes.push_back({std::move(name), in.get_text()});
    }
    for (adapters::ConfigFile* file : {&files.adapter_config, &files.train_meta}) {
        file->path = in.get_text();
        file->text = in.get_text();
    }
    for (auto n = in.get<std::uint64_t>(); n > 0; --n) {
        files.lost_assets.push_back(in.get_text());
    }
    const auto n_tokens = in.get<Index>();
    std::string tokenizer = in.get_text();
    if (n_tokens > 0) {
        files.tokens = {n_tokens, std::move(tokenizer)};
    }
    return files;
}

ModelFiles share_model_files(mpi::Comm& comm, int home, const std::function<ModelFiles()>& read) {
    ByteWriter out;
    std::vector<publish::Asset> assets;
    mpi::collectively(comm, [&] {
        if (comm.rank() == home) {
            ModelFiles files = read();
            encode(files, out);
            assets = std::move(files.assets);
        }
    });
    const auto bytes = comm.broadcast(out.take(), home);
    ByteReader in(bytes);
    ModelFiles files = decode_model_files(in);
    files.assets = std::move(assets);
    return files;
}

}  // namespace shardweld::app
