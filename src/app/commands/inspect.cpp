// `shardweld inspect`: what a checkpoint holds.
// Knows catalogues and how to show them; what a model is, family knows.

#include <string>

#include <nlohmann/json.hpp>

#include "app/report/grid_text.hpp"
#include "app/report/json_parts.hpp"
#include "app/report/stored_rows.hpp"
#include "app/survey/input.hpp"
#include "app/survey/survey.hpp"
#include "catalogue/catalogue.hpp"
#include "formats/rank_grid.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"
#include "inspect_text.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

constexpr int kInspectSchema = 1;

ordered_json tensor_json(const StoredRow& row) {
    ordered_json json = {{"name", row.name},       {"dtype", std::string(torch_name(row.dtype))},
                         {"shape", row.shape},     {"local", row.is_local},
                         {"shards", row.n_shards}, {"replicas", row.n_replicas},
                         {"bytes", row.bytes},     {"replica_bytes", row.replica_bytes}};
    if (row.is_local) {
        ordered_json ranks = ordered_json::array();
        for (const catalogue::Coordinates& at : row.ranks) {
            ranks.push_back(
                {{"tp", at.tp}, {"pp", at.pp}, {"vpp", at.vpp}, {"ep", at.ep}, {"etp", at.etp}});
        }
        json["ranks"] = std::move(ranks);
    }
    return json;
}

/// Fields are never renamed or removed.
std::string inspect_json(const Survey& survey) {
    const formats::Location& location = survey.location;
    const catalogue::Catalogue& catalogue = survey.catalogue;
    ordered_json json = {{"schema", kInspectSchema},
                         {"dir", location.directory.string()},
                         {"format", catalogue.format},
                         {"dialect", catalogue.dialect}};
    json["hf_config"] = location.hf_directory
                            ? ordered_json((*location.hf_directory / "config.json").string())
                            : ordered_json();
    json["notes"] = all_notes(location, catalogue);
    json["provenance"] = json_of(survey.provenance);
    json["warnings"] = ordered_json(catalogue.warnings);
    json["facts"] = ordered_json(catalogue.facts);
    json["claims"] = ordered_json(catalogue.claims);
    ordered_json files = ordered_json::array();
    for (const catalogue::File& file : catalogue.files) {
        files.push_back({{"path", file.path}, {"bytes", file.size}});
    }
    json["files"] = std::move(files);
    ordered_json tensors = ordered_json::array();
    for (const StoredRow& row : stored_rows(catalogue)) {
        tensors.push_back(tensor_json(row));
    }
    json["tensors"] = std::move(tensors);
    json["ignored"] = json_list(catalogue.ignored);
    json["inert_globals"] = ordered_json(catalogue.inert_globals);
    return json_text(json);
}

/// The ranks' files that are there, of a checkpoint that cannot be read.
std::string ranks_found(const Options& options) {
    try {
        return grid_text(formats::rank_grid(formats::locate(input_request(options))), {});
    } catch (const Error&) {
        return "";  // what is wrong with it is being told already
    }
}

Survey look_for(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log) {
    try {
        Unreported run(comm, options, log, log);
        return survey_shown(run.session(), input_request(options));
    } catch (const Error&) {
        if (comm.rank() == 0 && !options.json) {
            out << ranks_found(options);
        }
        throw;
    }
}

void print_text(mpi::Comm& comm, const Options& options, Survey& found, std::ostream& out) {
    InspectedFiles files;
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            files = look_at(found, options);
        }
    });
    const ModelSummary model = summarise_model(comm, options, found);
    if (comm.rank() == 0) {
        out << inspect_text(files, model, options);
    }
}

}  // namespace

int inspect(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log) {
    Survey found = look_for(comm, options, out, log);
    if (options.hf_config) {
        found.location.hf_directory = *options.hf_config;
    }
    if (!options.json) {
        print_text(comm, options, found, out);
        return 0;
    }
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            out << inspect_json(found);
        }
    });
    return 0;
}

}  // namespace shardweld::app
