//! Port counters of mlx5 in `hw_counters/`. A file of the same name has the same meaning in other drivers. Queue pair
//! counters have 32 bits in hardware; whether they clamp or wrap there is not documented.

use super::row::{Row, Width, counters};
use crate::metric::{Kind, Metric, Tier, Unit};

counters! {
    "RDMA_NLDEV_CMD_STAT_GET, or /sys/class/infiniband/*/ports/*/hw_counters/";
    RX_WRITE_REQUESTS "rx_write_requests" "rdma_rx_write_requests_total" None Detail Width::Extended, 1
        ["node_infiniband_rx_write_requests_total"] "RDMA write requests received.";
    RX_READ_REQUESTS "rx_read_requests" "rdma_rx_read_requests_total" None Detail Width::Extended, 1
        ["node_infiniband_rx_read_requests_total"] "RDMA read requests received.";
    RX_ATOMIC_REQUESTS "rx_atomic_requests" "rdma_rx_atomic_requests_total" None Detail Width::Extended, 1
        ["node_infiniband_rx_atomic_requests_total"] "RDMA atomic requests received.";
    RX_DCT_CONNECT "rx_dct_connect" "rdma_rx_dct_connect_total" None Detail Width::Extended, 1
        ["node_infiniband_rx_dct_connect_requests_total"] "Connection requests received for DCTs (dynamically connected transport).";
    OUT_OF_BUFFER "out_of_buffer" "rdma_out_of_buffer_total" None Core Width::Extended, 1
        ["node_infiniband_out_of_buffer_drops_total"] "Packets dropped because the receive queue had no WQE.";
    OUT_OF_SEQUENCE "out_of_sequence" "rdma_out_of_sequence_total" None Core Width::Extended, 1
        ["node_infiniband_out_of_sequence_packets_received_total"] "Out-of-sequence packets received.";
    DUPLICATE_REQUEST "duplicate_request" "rdma_duplicate_request_total" None Core Width::Extended, 1
        ["node_infiniband_duplicate_requests_packets_total"] "Duplicate requests received: requests retransmitted by the requester.";
    RNR_NAK_RETRY_ERR "rnr_nak_retry_err" "rdma_rnr_nak_retry_err_total" None Core Width::Extended, 1
        ["node_infiniband_rnr_nak_retry_packets_received_total"] "RNR NAK packets received, retry limit not exceeded.";
    PACKET_SEQ_ERR "packet_seq_err" "rdma_packet_seq_err_total" None Core Width::Extended, 1
        ["node_infiniband_packet_sequence_errors_total"] "NAK sequence error packets received, retry limit not exceeded.";
    IMPLIED_NAK_SEQ_ERR "implied_nak_seq_err" "rdma_implied_nak_seq_err_total" None Detail Width::Extended, 1
        ["node_infiniband_implied_nak_seq_errors_total"] "Implied NAK sequence errors: ACKs with a PSN larger than expected for an RDMA read or response.";
    LOCAL_ACK_TIMEOUT_ERR "local_ack_timeout_err" "rdma_local_ack_timeout_err_total" None Core Width::Extended, 1
        ["node_infiniband_local_ack_timeout_errors_total"] "ACK time-outs of queue pairs at the sender.";
    RESP_LOCAL_LENGTH_ERROR "resp_local_length_error" "rdma_resp_local_length_error_total" None Detail Width::Extended, 1
        ["node_infiniband_resp_local_length_errors_total"] "Local length errors detected by the responder.";
    RESP_CQE_ERROR "resp_cqe_error" "rdma_resp_cqe_error_total" None Detail Width::Extended, 1
        ["node_infiniband_resp_cqes_errors_total"] "CQEs completed with error at the responder.";
    RESP_CQE_FLUSH_ERROR "resp_cqe_flush_error" "rdma_resp_cqe_flush_error_total" None Detail Width::Extended, 1
        ["node_infiniband_resp_cqes_flush_errors_total"] "CQEs completed with flush error at the responder.";
    RESP_REMOTE_ACCESS_ERRORS "resp_remote_access_errors" "rdma_resp_remote_access_errors_total" None Detail Width::Extended, 1
        ["node_infiniband_resp_remote_access_errors_total"] "Remote access errors detected by the responder.";
    REQ_CQE_ERROR "req_cqe_error" "rdma_req_cqe_error_total" None Detail Width::Extended, 1
        ["node_infiniband_req_cqes_errors_total"] "CQEs completed with error at the requester.";
    REQ_CQE_FLUSH_ERROR "req_cqe_flush_error" "rdma_req_cqe_flush_error_total" None Detail Width::Extended, 1
        ["node_infiniband_req_cqes_flush_errors_total"] "CQEs completed with flush error at the requester.";
    REQ_REMOTE_INVALID_REQUEST "req_remote_invalid_request" "rdma_req_remote_invalid_request_total" None Detail Width::Extended, 1
        ["node_infiniband_req_remote_invalid_request_errors_total"] "Remote invalid request errors detected by the requester.";
    REQ_REMOTE_ACCESS_ERRORS "req_remote_access_errors" "rdma_req_remote_access_errors_total" None Detail Width::Extended, 1
        ["node_infiniband_req_remote_access_errors_total"] "Remote access errors detected by the requester.";
    REQ_TRANSPORT_RETRIES_EXCEEDED "req_transport_retries_exceeded" "rdma_req_transport_retries_exceeded_total" None Core Width::Extended, 1
        [] "Queue pairs that failed because the transport retry limit was exceeded.";
    REQ_RNR_RETRIES_EXCEEDED "req_rnr_retries_exceeded" "rdma_req_rnr_retries_exceeded_total" None Core Width::Extended, 1
        [] "Queue pairs that failed because the RNR retry limit was exceeded.";
    RETRANSMITTED_PACKETS "retrans_pkts" "rdma_retransmitted_packets_total" None Core Width::Wide, 1
        [] "Packets retransmitted, if the driver counts them (ionic, efa).";
    ROCE_ADP_RETRANS "roce_adp_retrans" "rdma_roce_adp_retrans_total" None Core Width::Extended, 1
        ["node_infiniband_roce_adp_retransmits_total"] "Adaptive retransmissions of RoCE traffic.";
    ROCE_ADP_RETRANS_TO "roce_adp_retrans_to" "rdma_roce_adp_retrans_to_total" None Core Width::Extended, 1
        ["node_infiniband_roce_adp_retransmits_timeout_total"] "Time-outs of RoCE traffic due to adaptive retransmission.";
    ROCE_SLOW_RESTART "roce_slow_restart" "rdma_roce_slow_restart_total" None Core Width::Extended, 1
        ["node_infiniband_roce_slow_restart_used_total"] "RoCE slow restarts.";
    ROCE_SLOW_RESTART_CNPS "roce_slow_restart_cnps" "rdma_roce_slow_restart_cnps_total" None Core Width::Extended, 1
        ["node_infiniband_roce_slow_restart_cnps_total"] "CNPs that RoCE slow restart generated after time-outs; they are also counted as handled.";
    ROCE_SLOW_RESTART_TRANS "roce_slow_restart_trans" "rdma_roce_slow_restart_trans_total" None Detail Width::Extended, 1
        ["node_infiniband_roce_slow_restart_total"] "State changes of RoCE slow restart.";
    NP_ECN_MARKED_ROCE_PACKETS "np_ecn_marked_roce_packets" "rdma_np_ecn_marked_roce_packets_total" None Core Width::Wide, 1
        ["node_infiniband_np_ecn_marked_roce_packets_received_total"] "RoCE packets received with the ECN mark CE (congestion experienced) at the notification point.";
    NP_CNP_SENT "np_cnp_sent" "rdma_np_cnp_sent_total" None Core Width::Wide, 1
        ["node_infiniband_np_cnp_packets_sent_total"] "CNPs (congestion notification packets) sent by the notification point.";
    RP_CNP_HANDLED "rp_cnp_handled" "rdma_rp_cnp_handled_total" None Core Width::Wide, 1
        ["node_infiniband_rp_cnp_packets_handled_total"] "CNPs handled by the reaction point: received, and on mlx5 also generated by RoCE slow restart.";
    RP_CNP_IGNORED "rp_cnp_ignored" "rdma_rp_cnp_ignored_total" None Core Width::Wide, 1
        ["node_infiniband_rp_cnp_ignored_packets_received_total"] "CNPs received and ignored by the reaction point.";
    RX_ICRC_ENCAPSULATED "rx_icrc_encapsulated" "rdma_rx_icrc_encapsulated_total" None Core Width::Wide, 1
        ["node_infiniband_rx_icrc_encapsulated_errors_total"] "RoCE packets received with an ICRC error.";
}
