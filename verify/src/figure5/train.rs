//! Figure 5c: the training thread, in two halves, so that a scenario can play one alone.

use super::pthreads::Pthreads;
use super::state::{Gradient, Learner, Mapping};

/// Lines 101 to 126, for `rounds` rounds of the loop.
pub fn train<M: Pthreads>(mapping: &Mapping<M>, learner: &Learner<M>, rounds: u32) {
    // 114. T *weights = getWeightsStorage();
    let mut weights = 0;
    // 102. while(true){
    for number in 1..=rounds {
        give(learner, number);
        take(mapping, learner, &mut weights);
    }
}

/// Lines 103 to 112: computes gradient `number` and passes it to the push thread.
pub fn give<M: Pthreads>(learner: &Learner<M>, number: u32) {
    // 103. T *grad = calGradeints();
    let grad = Gradient { learner: learner.tid, life: learner.life, number };
    // 104. pthread_mutex_lock(&pushMtx);
    let mut push = M::mutex_lock(&learner.push_mtx);
    // 105. while(pushCnt == 1){
    while push.push_cnt == 1 {
        // 106. pthread_cond_wait(&pushEmpty, &pushMtx);
        push = M::cond_wait(&learner.push_empty, push);
    }
    // 108. cudaMemcpyDevice2Device(grad_buf_gpu, grad, ...);
    // 109. cudaStreamSynchronizeDefaultStream();
    push.grad_buf_gpu = grad;
    // 110. pushCnt++;
    push.push_cnt += 1;
    // 111. pthread_cond_signal(&pushFill);
    M::cond_signal(&learner.push_fill);
    // 112. pthread_mutex_unlock(&pushMtx);
    M::mutex_unlock(push);
}

/// Lines 115 to 125: takes what the pull thread has, if it is new.
pub fn take<M: Pthreads>(mapping: &Mapping<M>, learner: &Learner<M>, weights: &mut u64) {
    // 115. pthread_mutex_lock(&pullMtx);
    let mut pull = M::mutex_lock(&learner.pull_mtx);
    // 116. while(pullCnt == 0){
    while pull.pull_cnt == 0 {
        // 117. pthread_cond_wait(&pullFill, &pullMtx);
        pull = M::cond_wait(&learner.pull_fill, pull);
    }
    // 119. if(recvNewWeightsFlag){
    if pull.recv_new_weights_flag {
        // 120. cudaMemcpyDevice2Device(weights, ...);
        // 121. cudaStreamSynchronizeDefaultStream();
        *weights = pull.weights_buf_gpu;
    }
    // 123. pullCnt--;
    pull.pull_cnt -= 1;
    // 124. pthread_cond_signal(&pullEmpty);
    M::cond_signal(&learner.pull_empty);
    // 125. pthread_mutex_unlock(&pullMtx);
    M::mutex_unlock(pull);
    mapping.ledger().train_on(*weights);
}
