//! Figure 5b: the pull thread.

use protocol::platform::Word;
use protocol::site::Site;

use super::pthreads::Pthreads;
use super::state::{Learner, Mapping};

/// Lines 301 to 319, for `rounds` rounds of the loop.
pub fn pull<M: Pthreads>(mapping: &Mapping<M>, learner: &Learner<M>, rounds: u32) {
    let g_param_version = || mapping.g_param_version.load(Site::Caller, mapping.memory.load());
    let g_param = || mapping.g_param.load(Site::Caller, mapping.memory.load());
    // 302. while(true){
    for _ in 0..rounds {
        // 303. pthread_mutex_lock(&pullMtx);
        let mut pull = M::mutex_lock(&learner.pull_mtx);
        // 304. while(pullCnt == 1){
        while pull.pull_cnt == 1 {
            // 305. pthread_cond_wait(&pullEmpty, &pullMtx);
            pull = M::cond_wait(&learner.pull_empty, pull);
        }
        // 307. if(p_version >= g_param_version){
        if pull.p_version >= g_param_version() {
            // 308. ...
            pull.recv_new_weights_flag = false;
        // 309. } else {
        } else {
            // 310. if(p_version < g_param_version){
            if pull.p_version < g_param_version() {
                // 311. cudaMemcpy(..., g_param_ptr, ...);
                // 312. cudasyncStream(...);
                pull.weights_buf_gpu = g_param();
                pull.recv_new_weights_flag = true;
                // 313. p_version = g_param_version;
                pull.p_version = g_param_version();
                mapping.ledger().claim(pull.p_version, pull.weights_buf_gpu);
            }
        }
        // 316. pullCnt++;
        pull.pull_cnt += 1;
        // 317. pthread_cond_signal(&pullFill);
        M::cond_signal(&learner.pull_fill);
        // 318. pthread_mutex_unlock(&pullMtx);
        M::mutex_unlock(pull);
    }
}
