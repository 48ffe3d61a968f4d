//! mlx4/main.c. `rq` is the responder, `sq` the requester. Without per-port counters, all are at device level.

use super::{RdmaDriver, Row, Width, hw, words};

static ROWS: &[Row] = words! { Width::Extended;
    "rq_num_lle" => hw::RESP_LOCAL_LENGTH_ERROR,
    "rq_num_rae" => hw::RESP_REMOTE_ACCESS_ERRORS,
    "rq_num_wrfe" => hw::RESP_CQE_FLUSH_ERROR,
    "rq_num_oos" => hw::OUT_OF_SEQUENCE,
    "rq_num_dup" => hw::DUPLICATE_REQUEST,
    "sq_num_rire" => hw::REQ_REMOTE_INVALID_REQUEST,
    "sq_num_rae" => hw::REQ_REMOTE_ACCESS_ERRORS,
    "sq_num_wrfe" => hw::REQ_CQE_FLUSH_ERROR,
    "sq_num_oos" => hw::PACKET_SEQ_ERR,
    "sq_num_rnr" => hw::RNR_NAK_RETRY_ERR,
    "sq_num_to" => hw::LOCAL_ACK_TIMEOUT_ERR,
    "sq_num_tree" => hw::REQ_TRANSPORT_RETRIES_EXCEEDED,
    "sq_num_rree" => hw::REQ_RNR_RETRIES_EXCEEDED,
};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["mlx4_core", "mlx4_ib"],
    port: ROWS,
    device: ROWS,
    ..RdmaDriver::PLAIN
};
