#include "show_report.hpp"

#include "../report/report.hpp"
#include "../report/run_page.hpp"
#include "../report/run_record.hpp"
#include "../report/run_text.hpp"

namespace shardweld::app {

int show_report(const Options& options, std::ostream& out) {
    const RunRecord record = read_run_record(options.local_dir);
    if (!options.html) {
        out << run_text(record);
        return 0;
    }
    write_json(run_page(record), *options.html, options.sync);
    out << "wrote " << options.html->string() << '\n';
    return 0;
}

}  // namespace shardweld::app
